r"""Sixty small tables of ten fields with what two readers say of each, made from fixed seeds.

A block of TABLES is a table. Lines that begin with # stand above it as they are. The others have a name, kinds (`/`
between two that are as right), the number of rows and the form, and columns, between ` ; `: `NAME:R TEMPLATE`, where R
is a letter of ROLES. In a template

    {1..6}  {.5~2:.1f}  {5+-1:.1f}  {5^2:.0f}   are a whole number, a number, a normal and a lognormal one;
    {i*7+500:05}                                counts rows from i = 1 on;
    {a|b|}  {words}  {words8}                   are one of these, one of a list in LISTS, of the first 8 of it;
    {%a|b}  {%words}                            are row after row each in turn;
    {words<} {words>}                           are two that differ; {apart} says how far from each other in the list;
    {pairs.0} {pairs.1}                         are the parts of one entry, which ` = ` separates;
    {40..99?NA}                                 is NA in a tenth of rows;
    {day} {stamp} {moment} {earlier}            are dates, and the id of an earlier row, or nothing;
    {note*2}                                    is two sentences of SENTENCES.

What follows a colon is a format: one of Python, r2 for two digits at most, de1 for 1.234,5.
"""

import csv
import io
import json
import random
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

ROLES = {
    "s": "source", "t": "target", "w": "weight", "o": "weight or none", "d": "time", "k": "kind of relation",
    "i": "id", "l": "label", "c": "coordinate", "g": "category", "x": "text", "-": "ignored",
}  # fmt: skip
DELIMITERS = {"semicolons": ";", "tabs": "\t", "blanks": " ", "bars": "|"}

LISTS = {
    "people": "Anna Müller|José García|Łukasz Nowak|Zoë Dupont|Αλέξανδρος Π.|Иван Петров|王小明|佐藤 花子|Ayşe Yılmaz|"
    "محمد علي|Siobhán O'Neill|Björn Åkesson|Nguyễn Văn An|Maria Rossi|Kwame Mensah|Priya Sharma|김민준|Lars Jensen|"
    "Chloé Martin|Tom Smith|Olga Ivanova|João Silva|Fatima Zahra|Emma Brown",
    "cities": "Basel|Olten|Bern|Thun|Zürich|Chur|Genève|Lausanne|Sion|Brig|Luzern|Zug|Lugano|Biel|Aarau",
    "airports": "ZRH|JFK|LHR|CDG|FRA|MAD|FCO|IST|DXB|SIN|HND|LAX|ORD|YYZ|GRU",
    "words": "house|river|table|green|small|market|winter|letter|garden|bridge|school|doctor|bread|light|stone|mother|"
    "train|window|water|silent|early|open|warm|heavy|people|travel|remember|follow|between|after",
    "files": "src/main.c|src/util.c|src/parse.c|include/api.h|docs/readme.md|tests/test_parse.py|Makefile",
    "packages": "numlib|fastjson|webcore|httpkit|logr|cryptox|yamlite|testbed|clikit|dbmap|asyncio2|tmplt|zipper",
    "genes": "TP53|BRCA1|EGFR|MYC|KRAS|PTEN|AKT1|VEGFA|IL6|TNF|STAT3|JUN|FOS|CDK4|RB1|MDM2|ATM|CHEK2",
    "clubs": "FC Union|SV Werder|Real Norte|Ajax Zuid|Olympique Est|Rovers|Dinamo|Sporting|Hertha|Galatas",
    "countries": "Germany|France|Japan|Brazil|Kenya|India|Canada|Poland|Vietnam|Chile|Norway|Egypt",
    "foods": "Milch|Brot|Käse|Butter|Eier|Äpfel|Reis|Nudeln|Öl|Salz|Kaffee|Tee",
    "animals": "cod|herring|krill|copepods|seals|capelin|shrimp|diatoms|squid|gulls",
    "stations": "Main St & 1st|Park Ave|Dock 7|Museum|Station North|Old Mill|Harbour",
    "diseases": "Breast Carcinoma|Asthma|Diabetes Mellitus, Type 2|Glioma|Lupus|Schizophrenia",
    "disciplines": "100 m = {11+-.3:.2f}|Long jump = {7.4+-.2:.2f}|Shot put = {15+-.5:.2f}|High jump = {2+-.1:.2f}",
    "messages": "connection to {packages} lost after {1..90} s, retry|cannot open file {files}: permission denied|"
    "user {words} logged in from 10.0.{0..9}.7|cache miss for key {words}, loading from disk",
    "proverbs": "A bird in the hand is worth two in the bush|When in Rome, do as the Romans do|"
    "Out of sight, out of mind|The early bird catches the worm|Easy come, easy go|A stitch in time saves nine|"
    "No pain, no gain|Better late than never, but better never late|All that glitters is not gold|"
    "First come, first served|Don't count your chickens before they hatch|Where there's a will, there's a way|"
    "Rome wasn't built in a day|Spare the rod, spoil the child|Too many cooks spoil the broth|Once bitten, twice shy|"
    "Practice makes perfect|Like father, like son|You can lead a horse to water, but you can't make it drink|"
    "Nothing ventured, nothing gained|Look before you leap|Still waters run deep",
}
ENTRIES = {name: text.split("|") for name, text in LISTS.items()} | {
    "numbers": [str(k) for k in range(1, 40)],
    "items": [str(k * k - 3) for k in range(1, 43)],
    "proteins": [f"9606.ENSP{k:011}" for k in range(233, 253)],
    "accounts": [f"CH{k}00762011623852{k}" for k in range(31, 45)],
    "mails": [f"{who}@{at}" for who in ("a.keller", "jo.tan", "mira", "sysop", "p.adams", "lee.w")
              for at in ("acme.com", "uni.example.org")],
    "members": [f"{k} = {name}" for k, name in enumerate(LISTS["people"].split("|"), 700)],
    "scores": [f"{a} = {b} = {'H' if a > b else 'A' if a < b else 'D'}" for a in range(5) for b in range(4)],
    "papers": [f"US{k * 7919:010} = Company {chr(64 + k)}" for k in range(1, 21)],
    "courses": [f"CS{k}" for k in range(101, 121)],
    "letters": [*"abcdefghiklmnoprstu"],
    "capitals": [*"ABCDEFGHKLMNPRST"],
    "firms": [word.title() for word in LISTS["words"].split("|")],
}  # fmt: skip
SENTENCES = {
    "review": "The box|This lamp|My new kettle|The handle|The second one I bought|Delivery = arrived late|"
    "works as described|broke after two weeks|looks better than in the photo|is smaller than I thought = "
    "but the price is fair|and I would buy it again|so I sent it back|, sadly|and my mother loves it",
    "post": "Just saw|Cannot believe|Anyone else watching|Finally finished|So tired of = the new season|"
    "this rainy weather|the train strike|my first marathon|that long meeting = lol|- what a day|and I need coffee|"
    "with @mira and friends|:)",
    "essay": "In my opinion|On the other hand|First of all|Many people say that|To conclude = "
    "computers help us to learn|school should start later|reading opens the mind|homework takes too much time|"
    "families need more time together = because every child is different|and nobody can deny it|"
    "although some teachers disagree|as my own experience shows|when it is used with care",
    "note": "Patient reports|Pt denies|No sign of|Follow-up for|Mother describes = mild chest pain|"
    "dry cough since Monday|fever up to 38.9|swelling of the left knee|poor sleep = at night|"
    "after exercise, no medication|for three days|; lungs clear|, see lab results",
    "news": "Central bank|Oil company|Finance minister|Chip maker|Regulator = raises forecast|warns of losses|"
    "cuts 2,000 jobs|delays merger|beats estimates = as demand slows|after strong quarter|amid export ban|"
    "despite high rates|, shares jump",
    "deu": "Der alte Mann|Meine Schwester|Niemand|Das Kind nebenan|Unser Lehrer = liest den Brief|"
    "geht über die Brücke|hat den Schlüssel verloren|wartet auf den Bus|hat das grüne Haus verkauft = heute|im Regen|"
    "ohne ein Wort|schon wieder|am Sonntagmorgen",
    "eng": "The old man|My sister|Nobody|The child next door|Our teacher = reads the letter|crosses the bridge|"
    "has lost the key|is waiting for the bus|sold the green house = today|in the rain|without a word|once again|"
    "on Sunday morning",
}
TABLES = r"""
01-orders.csv | two kinds | 40 | Order No:- {i+70000} ; Order Date:d {day} ; Customer ID:s C{1..18:04} ;
SKU:t SKU-{100..130} ; Qty:w {1..6} ; Unit Price:- {3~90:.2f}

02-u.data | two kinds | 60 tabs bare | :s {1..25} ; :t {items} ; :w {1..5} ; :d {874724710..884724709}

03-zusammen.csv | edges | 40 semicolons | produkt_a:s {foods<} ; produkt_b:t {foods>} ; gemeinsam_gekauft:w {3..220}

04-artikel.csv | points | 30 semicolons | Artikelnummer:i {i*37:06} ;
Bezeichnung:l {Stuhl|Tisch|Regal|Lampe} Modell {i} ; Preis:c {9~2900:de2} ; Gewicht (g):c {400..28000:de0} ;
Lagerbestand:c {0..300} ; Warengruppe:g {Möbel|Licht|Deko}

05-reviews.jsonl | texts | 30 | review_id:i R{0..4294967295:08X} ; asin:- B0{1000..1015} ; stars:- {1..5} ;
review:x {review*2} ; verified:- {true|true|true|true|false}

06-laden_plz.csv | two kinds | 36 | Filiale:s {cities6} Mitte ;
PLZ:t {01067|01069|04103|04109|06108|07743|09111|10115|99084} ; Besuche:w {5..900}

07-protein_links.txt | edges | 50 blanks | protein1:s {proteins<} ; protein2:t {proteins>} ;
combined_score:w {150..999}

08-expression.tsv | points | 48 tabs | gene:i AT{1..5}G{i*410:05} ; ctrl_1:c {2^1:.3f} ; ctrl_2:c {2^1:.3f} ;
ctrl_3:c {2^1:.3f} ; heat_1:c {2^1:.3f} ; heat_2:c {2^1:.3f} ; heat_3:c {2^1:.3f}

09-gene_disease.tsv | two kinds | 40 tabs | geneSymbol:s {genes} ; diseaseName:t {diseases} ; score:w {0~1:r2} ;
NofPmids:- {0..40}

# Bay food web, spring survey
# flow in gC/m2/yr
10-foodweb.csv | edges | 30 | predator:s {animals<} ; prey:t {animals>} ; flow_gC_m2:w {.01~9:.3f}

11-flowers.csv | points | 45 bare | :c {5.8+-.4:.1f} ; :c {3+-.4:.1f} ; :c {4.1+-.4:.1f} ; :c {1.5+-.4:.1f} ;
:g {%I. virginica|I. versicolor|I. setosa}

12-regulation.sif | edges | 40 tabs bare | :s {genes<} ; :k {activates|represses} ; :t {genes>}

13-flights.csv | edges | 40 | FL_DATE:d {day} ; CARRIER:- {LX|AA|BA|TK} ; FLIGHT:- {10..2400} ; ORIGIN:s {airports<} ;
DEST:t {airports>} ; PASSENGERS:w {40..380}

14-rail.txt | edges | 32 blanks bare | :s {cities<} ; :t {cities>} ; :w {apart}

15-stops.txt | points | 30 | stop_id:i {i*3+8500000} ; stop_name:l {cities}{, Bahnhof|, Post|, Dorf} ;
stop_lat:c {46~47.5:.5f} ; stop_lon:c {7~9:.5f} ; zone_id:g {10|11|20}

16-bike_trips.csv | edges | 45 | trip_id:- {0..1099511627775:010X} ;
started_at:d 2022-06-{i//4+1:02} {i%9+8:02}:{0..59:02}:00 ; ended_at:- 2022-06-{i//4+1:02} {i%9+9:02}:{0..59:02}:00 ;
start_station:s {stations<} ; end_station:t {stations>} ; member_type:- {member|casual}

17-stop_times.txt | two kinds/edges | 48 | trip_id:s T{(i-1)//8+1:02}.A ;
arrival_time:d {(i-1)//8+6:02}:{i%8*6+5:02}:00 ; departure_time:- {(i-1)//8+6:02}:{i%8*6+5:02}:30 ;
stop_id:t S{101..120} ; stop_sequence:- {(i-1)%8+1}

18-gps.csv | points | 44 | vehicle:g TRK-{i%4+1:02} ; timestamp:d 2023-05-04T08:{i:02}:00Z ; lat:c {52.5+-.05:.5f} ;
lon:c {13.4+-.05:.5f} ; speed_kmh:c {0..90}

19-mailbox.csv | edges | 40 quoted | Date:d {stamp} ; From:s {mails<} ; To:t {mails>} ;
Subject:- {Re: budget, Q3|lunch?|Fwd: minutes|server down|Re: Re: draft}

# Directed graph: who follows whom
# FromNodeId\tToNodeId
20-follows.txt | edges | 60 tabs bare | FromNodeId:s {numbers30<} ; ToNodeId:t {numbers30>}

21-groups.csv | two kinds | 44 | user_id:s {members.0} ; user_name:l {members.1} ;
group:t {Hiking|Chess Club|Book Circle|Photo|Vegan Cooking} ; joined:d {day}

22-posts.jsonl | texts | 40 | id:i {1000000000..1099999999} ; user:- @{words} ; created_at:d {stamp} ; text:x {post*1} ;
lang:- {en|und}

23-trust.csv | edges | 60 bare | :s {numbers39<} ; :t {numbers39>} ; :w {-10|-3|1|1|2|3|5|10} ;
:d {1289241911..1389241910}

24-profiles.csv | points | 40 | handle:i {words}_{i} ; followers:c {6^2:d} ; following:c {3..900} ; posts:c {0..4000} ;
account_age_days:c {20..4100} ; country:g {countries5}

25-noten.csv | two kinds | 40 semicolons | Matrikelnummer:s {12301..12314:07} ;
Modul:t {Analysis I|Lineare Algebra|Stochastik|Informatik II} ; Note:w {1,0|1,3|2,0|2,7|3,0|4,0|5,0} ;
Semester:d {WS 2021/22|SS 2022}

26-marks.csv | points | 24 | Student:l {%people} ; Math:c {40..100?} ; Physics:c {40..100?} ; Chemistry:c {40..100?} ;
History:c {40..100?} ; Art:c {40..100?}

27-prereq.csv | edges | 28 | course:s {courses<} ; requires:t {courses>}

28-survey.csv | points | 24 | :- {i} ; ID:i {i*7+500:05} ; Name:l {%people} ; Class:g {7a|7b|8a} ; Q1:c {1|2|3|4|5|NA} ;
Q2:c {1|2|3|4|5|NA} ; Q3:c {1|2|3|4|5|NA} ; Q4:c {1|2|3|4|5|NA} ; Q5:c {1|2|3|4|5|NA}

29-essays.csv | texts | 25 quoted | essay_id:i E{i:03} ; prompt:- {A|B} ; essay:x {essay*5} ; score:- {1..6}

30-friends.csv | edges | 42 | no:- {i} ; pupil:s {people16<} ; names_as_friend:t {people16>} ; rank:o {1..5}

31-league.csv | edges/points | 45 | Date:d {1..28:02}/{1..12:02}/22 ; HomeTeam:s {clubs<} ; AwayTeam:t {clubs>} ;
FTHG:o {scores.0} ; FTAG:- {scores.1} ; FTR:- {scores.2}

32-players.csv | points | 24 | Rk:- {i} ; Player:l {%people} ; Team:g {clubs4} ; Pos:g {F|D|G} ; GP:c {20..82} ;
G:c {0..50} ; A:c {0..60} ; +/-:c {-20..30}

33-passes.csv | edges | 44 semicolons | event:- {i} ; minute:d {i*2} ; second:- {0..59} ; from:s {people11<} ;
to:t {people11>}

34-best_marks.csv | two kinds | 36 | athlete:s {people} ; discipline:t {disciplines.0} ; season_best:o {disciplines.1}

35-decathlon.csv | points | 22 semicolons | Rank:- {i} ; Name:l {%people} ; 100m:c {11+-.3:.2f} ;
Long jump:c {7.3+-.3:.2f} ; Shot put:c {14.5+-1:.2f} ; High jump:c {2+-.1:.2f} ; 400m:c {49+-1:.2f} ;
Points:c {8800-i*40}

36-appearances.csv | two kinds | 45 | season:d 20{i%8+15}/{i%8+16} ; club:t {clubs} ; player:s {people} ;
appearances:w {1..38} ; goals:- {0..20}

37-cooc.tsv | edges | 55 tabs bare | :s {words<} ; :t {words>} ; :w {2..400}

38-sentences.tsv | texts | 30 tabs | id:i {i*11+3000} ; deu:x {deu*1} ; eng:x {eng*1}

39-proverbs.txt | texts | 22 tabs bare | :x {%proverbs}

40-tfidf.csv | two kinds | 60 | doc_id:s doc{1..12:03} ; term:t {words} ; tfidf:w {.01~.6:.4f}

41-languages.csv | points | 32 | iso:i {letters}{letters}{letters} ;
language:l {Kal|Mor|Tib|Sen|Yu}{ani|ese|uk|ish} {i} ; family:g {Bantu|Uralic|Turkic|Indo-European} ;
latitude:c {-50~65:.2f} ; longitude:c {-170~170:.2f} ; speakers:c {11^2:,}

42-lexicon.csv | edges | 44 semicolons | relation:k {synonym|hypernym|antonym} ; word:s {words<} ;
related_word:t {words>}

43-transfers.csv | edges | 50 | tx_id:- tx{i+90000} ; timestamp:d {stamp} ; payer_iban:s {accounts<} ;
payee_iban:t {accounts>} ; amount:w {5^1.5:.2f} ; currency:- {CHF|EUR}

44-exports.csv | edges | 50 semicolons | Jahr:d {2015..2022} ; Exporteur:s {countries<} ; Importeur:t {countries>} ;
Wert (EUR):w {15^1.3:de0}

45-holdings.csv | two kinds | 44 | fund:s {Alpha Growth|Euro Value|Global Bond|Small Cap} ; isin:t {papers.0} ;
name:l {papers.1} ; pct_of_nav:w {.1~9:.2f}%

46-fundamentals.csv | points | 35 | Ticker:i {capitals}{capitals}{capitals}{capitals} ;
Company:l {firms} {AG|Inc.|Ltd} ; Sector:g {Energy|Tech|Health} ; P/E:c {5~60:.1f?N/A} ; P/B:c {.5~9:.2f} ;
Dividend yield:c {0~6:.1f}% ; Market cap:c {9^1.5:,}

47-headlines.csv | texts | 36 | published:d {day} ; source:- {Reuters|Le Monde|NZZ|Kyodo} ; headline:x {news*1}

48-payments.jsonl | two kinds | 45 | ts:d {moment} ; card:s ****{1..15:04} ;
merchant:t {Café Central|Bäckerei Huber|Metro Tickets|BookHaven|Аптека 36} ; amt:w {3^1:r2}

49-deps.csv | edges | 38 | package:s {packages<} ; depends_on:t {packages>} ; constraint:- {^1.2|>=0.9|~2.0.1|*|}

50-calls.log | edges | 40 semicolons bare | :s app.{words16<}() ; :t app.{words16>}() ; :w {1..9000}

51-changes.csv | two kinds | 50 | commit:- {0..268435455:07x} ; author:s {people9} ; date:d {day} ; file:t {files} ;
lines_changed:w {1..400}

52-metrics.csv | points | 48 | timestamp:d 2024-02-01 00:{i:02}:00 ; host:g web{i%3+1} ; cpu_pct:c {1~99:.1f} ;
mem_mb:c {800..7900} ; load1:c {0^.6:.2f}

53-app_log.txt | texts | 50 bars | time:d 2024-03-09T11:{i:02}:{0..59:02} ; level:- {INFO|WARN|ERROR} ;
message:x {messages}

54-benchmarks.csv | points | 26 | framework:l {%packages}-{i} ; language:g {Rust|Go|Python} ; req_per_s:c {10^1:,} ;
p99_ms:c {2^1:.2f} ; rss_mb:c {10..900}

55-linelist.csv | edges | 45 | case_id:t C{i:03} ; infected_by:s {earlier} ; date_onset:d 2020-03-{i//2+1:02}

56-diagnoses.csv | two kinds | 40 semicolons | patient:s {4401..4418:06} ; icd10:t {I10|E11.9|J45.0|M54.5|F32.1} ;
date:d {1..28:02}.{1..12:02}.2022

57-vitals.csv | points | 40 | pid:i {i*13:05} ; sex:g {M|F} ; age:c {18..90} ; sbp:c {95..180?NA} ; dbp:c {55..110} ;
bmi:c {26+-4:.1f}

58-kreise.csv | points | 36 semicolons | AGS:i {i*53+1001:05} ;
Kreis:l {Landkreis |Stadt }{Nord|Süd|Ober|Unter}burg {i} ; Fälle:c {5..900} ; Einwohner:c {30000..900000:de0} ;
Inzidenz:c {2~400:de1}

59-side_effects.tsv | two kinds | 40 tabs bare | :s {aspirin|ibuprofen|metformin|sertraline|lisinopril|warfarin} ;
:t {nausea|headache|dry mouth|rash|dizziness|insomnia}

60-notes.csv | texts | 24 | note_id:i N{i:04} ; patient:- {1..20:05} ; note:x {note*2}\n{note*1}
"""
DATES = {"day": "%Y-%m-%d", "stamp": "%Y-%m-%d %H:%M:%S", "moment": "%Y-%m-%dT%H:%M:%S"}
NUMBER = re.compile(r"(-?[\d.]+)(\.\.|~|\+-|\^)(-?[\d.]+)(?::([^?]+))?(?:(\?)(.*))?")
COUNTED = re.compile(r"([\d+*/%()-]*i[\d+*/%()-]*)(?::(.+))?")
PICKED = re.compile(r"%?([a-z]+)(\d*)(|[<>]|\.\d)")


class SixtyTable(NamedTuple):
    """A table, what it may be, and the roles of its columns by name, or by position where they have none."""

    name: str
    kinds: list[str]
    roles: dict[str | int, str]
    text: str


def tables() -> Iterator[SixtyTable]:
    """Make the tables; the same ones each time."""
    for block in TABLES.strip().split("\n\n"):
        above, line = re.fullmatch("((?:#.*\n)*)(.*)", block.replace(r"\t", "\t"), re.DOTALL).groups()
        name, kinds, form, columns = line.replace("\n", " ").split(" | ", 3)
        n, *marks = form.split()
        parts = (re.fullmatch("(.*?):(.) (.*)", column).groups() for column in columns.split(" ; "))
        names, letters, templates = zip(*parts, strict=True)
        draw = Draw(name)
        rows = [draw.row(templates, i) for i in range(1, int(n) + 1)]
        known = names if any(names) else range(len(names))
        text = as_json(names, rows) if name.endswith("l") else as_csv(names, rows, marks)
        roles = {column: ROLES[letter] for column, letter in zip(known, letters, strict=True)}
        yield SixtyTable(name, kinds.split("/"), roles, above + text)


def as_json(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write JSON lines; what looks like a number or a truth is one."""
    plain = re.compile(r"[\d.]+|true|false")
    records = [{k: json.loads(v) if plain.fullmatch(v) else v for k, v in zip(names, row, strict=True)} for row in rows]
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def as_csv(names: Sequence[str], rows: Sequence[Sequence[str]], marks: Sequence[str]) -> str:
    """Write rows with the header, the delimiter and the quotes that the marks of a table name."""
    file = io.StringIO()
    delimiter = next((DELIMITERS[mark] for mark in marks if mark in DELIMITERS), ",")
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=int("quoted" in marks))
    writer.writerows(rows if "bare" in marks else [names, *rows])
    return file.getvalue()


class Draw:
    """Rows of a table at random, from a seed of its own."""

    def __init__(self, name: str) -> None:
        self.random = random.Random(f"sixty {name}")
        self.i = 0
        self.drawn: dict[str, list[str]] = {}

    def row(self, templates: Sequence[str], i: int) -> list[str]:
        """Fill the templates of row i."""
        self.i = i
        return [self.filled(template).replace(r"\n", "\n") for template in templates]

    def filled(self, template: str) -> str:
        """Fill a template; a part that is filled in may be one, too."""
        while "{" in template:
            before, part, behind = re.fullmatch(r"(?s)([^{]*)\{([^}]*)\}(.*)", template).groups()
            template = before + self.part(part) + behind
        return template

    def part(self, part: str) -> str:
        """Draw what a part between braces says."""
        if part in DATES:
            return (datetime(2023, 1, 1) + timedelta(seconds=self.random.randrange(86400 * 360))).strftime(DATES[part])
        if part == "earlier":
            return "" if self.i < 4 or self.random.random() < 0.1 else f"C{self.random.randint(1, self.i - 1):03}"
        if part == "apart":
            a, b = map(ENTRIES["cities"].index, self.drawn["cities"])
            return str(9 + 13 * abs(a - b))
        if found := NUMBER.fullmatch(part):
            return self.number(*found.groups())
        if found := COUNTED.fullmatch(part):
            return shown(eval(found[1], {"i": self.i}), found[2])
        if "*" in part and part.split("*")[0] in SENTENCES:
            return self.sentences(*part.split("*"))
        return self.picked(part)

    def number(self, a: str, how: str, b: str, form: str | None, may_miss: str | None, missing: str) -> str:
        """Draw a number, as text in a form."""
        draw = {"..": self.random.randint, "~": self.random.uniform, "+-": self.random.gauss}
        make = int if how == ".." else float
        found = shown(draw.get(how, self.random.lognormvariate)(make(a), make(b)), form)
        return missing if may_miss and self.random.choice(range(10)) == 9 else found

    def picked(self, part: str) -> str:
        """Pick one of some texts, or an entry of a list, one of a pair of them, or a part of one."""
        found = PICKED.fullmatch(part)
        if not found:
            entries, which, name = part.lstrip("%").split("|"), "", ""
        else:
            name, most, which = found.groups()
            entries = ENTRIES[name][: int(most or len(ENTRIES[name]))]
        if part.startswith("%"):
            return entries[(self.i - 1) % len(entries)]
        if not which:
            return self.random.choice(entries)
        if which == "<":
            pair = self.random.sample(entries, 2)
            self.drawn[name] = sorted(pair, reverse=True) if name == "courses" else pair  # requires an earlier one
        elif which == ".0":
            self.drawn[name] = self.random.choice(entries).split(" = ")
        return self.drawn[name]["<>".index(which) if which in "<>" else int(which[1:])]

    def sentences(self, name: str, n: str) -> str:
        """Put sentences together from a piece of each group; those of two languages say the same in each row."""
        draw = random.Random(self.i) if name in ("deu", "eng") else self.random
        groups = [group.split("|") for group in SENTENCES[name].split(" = ")]
        made = [" ".join(map(draw.choice, groups)) + draw.choice("..!") for _ in range(int(n))]
        text = re.sub(" ([,;])", r"\1", " ".join(made))
        return text.rstrip(".!") if name == "news" else text


def shown(number: float, form: str | None) -> str:
    """Write a number in a form."""
    if form is None:
        return str(number)
    if form.startswith("r"):
        return str(round(number, int(form[1:])))
    if form.startswith("de"):
        return f"{number:,.{form[2:]}f}".translate(str.maketrans(",.", ".,"))
    return format(int(number) if form in ("d", ",") else number, form)
