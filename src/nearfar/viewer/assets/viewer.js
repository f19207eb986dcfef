"use strict";
// The map of a page: reads the blocks that page.py wrote, draws the points with regl-scatterplot, and all that lies over
// them (labels, lines to neighbours) on a second canvas. Whatever comes from the data enters the page as text only.
(async () => {
  // Categories bring their colours along, for the light page and for the dark one. A scale leaves out the end that is as
  // light or as dark as what is behind.
  const PLAIN = { light: "#0072B2", dark: "#3B9AD9" }, GREYS = { light: "#c6cacf", dark: "#474e56" };
  const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
  const SCALES = { light: VIRIDIS.slice(0, -1), dark: VIRIDIS.slice(2) };
  const IN_ORDER = 40; // categories up to which the legend is in their order, not by size
  const GLOW_FROM = 1000; // points from which the density of the groups is behind them
  const LISTED = 200; // categories in the legend, and hits of a search that are marked
  const STEPS = 32; // colours of a scale
  const NAMES = 80, FONTS = '"Inter", "Segoe UI", "Helvetica Neue", "Noto Sans", "Source Sans 3", "Source Sans Pro", system-ui, sans-serif';
  const ARROWS = 150, LEAST_WAY = 0.01, OF_GROWTH = ["status", "shift"]; // arrows, share of the map, and columns that have them
  const CLOSE = 0.9, NAMED = 400; // share of the map in view, and points in it, up to which points have their ids
  const MARGIN = 0.94; // of the picture that the points fill
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const number = (value) => Number.isInteger(value) || Math.abs(value) >= 1e4 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(4)).toString();
  const single = (value) => { // the shortest text that a 32-bit float is read from again
    for (let digits = 6; digits < 9; digits++) {
      const text = Number(value.toPrecision(digits));
      if (Math.fround(text) === value) return String(text);
    }
    return String(Number(value.toPrecision(9)));
  };
  const percent = (share) => `${Math.round(100 * share)} %`;

  // ---- what the file holds

  async function bytesOf(name) {
    const element = $(`block-${name}`);
    const text = element.textContent;
    element.remove(); // its memory
    const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(unpacked).arrayBuffer());
  }
  const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };
  async function arrayOf(name, type, differences = false) {
    const planes = await bytesOf(name); // the first bytes of all numbers, then the second ones, ...
    const size = TYPES[type].BYTES_PER_ELEMENT;
    const n = planes.length / size;
    const bytes = new Uint8Array(planes.length);
    for (let b = 0; b < size; b++) for (let i = 0, at = b * n; i < n; i++) bytes[i * size + b] = planes[at + i];
    const values = new TYPES[type](bytes.buffer);
    if (differences) for (let i = 1; i < n; i++) values[i] += values[i - 1];
    return values;
  }
  const textsOf = async (name) => new TextDecoder().decode(await bytesOf(name)).split("\0");

  const header = JSON.parse(new TextDecoder().decode(await bytesOf("header")));
  const n = header.n;
  const [qx, qy] = [await arrayOf("x", "u2", true), await arrayOf("y", "u2", true)];
  let canvas = $("plot");
  const stage = $("stage"), overlay = $("overlay");
  const size = () => ({ width: stage.clientWidth, height: stage.clientHeight });
  // The picture is 2 high and 2 width / height wide, its middle is 0. The map is as large as both sides allow.
  const reach = (values) => {
    let most = 1;
    for (let i = 0; i < n; i++) most = Math.max(most, Math.abs(values[i] - 32767.5));
    return most / 32767.5;
  };
  const [wide, high] = [reach(qx), reach(qy)];
  let fit = 0;
  const x = new Float32Array(n), y = new Float32Array(n);
  function refit() { // whether the map was too large or too small for the window
    const next = MARGIN * Math.min(size().width / size().height / wide, 1 / high), before = fit;
    if (!(next > 0) || Math.abs(next - fit) < 0.01 * fit) return 1;
    fit = next;
    for (let i = 0; i < n; i++) {
      x[i] = fit * ((qx[i] / 65535) * 2 - 1);
      y[i] = fit * ((qy[i] / 65535) * 2 - 1);
    }
    return before ? fit / before : 1;
  }
  refit();

  // ---- the points

  const THEME = "nearfar-theme";
  let dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  try { // a page within another may not keep anything
    dark = { dark: true, light: false }[localStorage.getItem(THEME)] ?? dark;
  } catch { /* as the system has it */ }
  async function begun(options) { // a browser that is busy may refuse a canvas, and give the next one
    for (let tried = 1; ; tried++) {
      try {
        return createScatterplot({ canvas, ...options });
      } catch (error) {
        if (tried === 8) throw new Error(`the browser offers no WebGL (${error.message ?? error})`);
        await new Promise((resolve) => setTimeout(resolve, 300 * tried));
        const next = canvas.cloneNode();
        canvas.replaceWith(next);
        canvas = next;
      }
    }
  }
  const plot = await begun({
    ...size(), lassoColor: "#56b4e9", pointSize: n > 200000 ? 1.5 : n > 20000 ? 2.5 : n > 2000 ? 4 : 7,
    pointSizeSelected: 1, pointOutlineWidth: 1, opacityBy: n > 20000 ? "density" : undefined, opacity: 0.75,
    pointColorHover: "#56b4e9", backgroundColor: [0, 0, 0, 0], actionKeyMap: { lasso: "shift", merge: "ctrl" },
  });
  // The library draws in a picture no larger than the screen. A page that is zoomed out is larger: points would be cut.
  const roomy = () => plot.get("renderer").resize(window.innerWidth, window.innerHeight);
  roomy();
  const z = new Float32Array(n);
  let shown = new Uint8Array(n).fill(1);
  // Where each point is in what is drawn, and back: grey points come first, below the others.
  let slots = null, rows = null, plainIndex = null;
  const slotOf = (i) => (slots ? slots[i] : i), rowOf = (slot) => (rows ? rows[slot] : slot);
  const placeOf = (i) => plot.getScreenPosition(slotOf(i));
  async function drawPoints() {
    const grey = palette().length - 1;
    const below = coloured === null ? [] : Array.from(z.keys()).filter((i) => z[i] === grey);
    plot.set({ colorBy: "valueA", pointColor: palette(), pointColorActive: palette() });
    if (!below.length) {
      slots = rows = null;
      await plot.draw({ x, y, z }, { zDataType: "categorical", ...(plainIndex ? { spatialIndex: plainIndex } : {}) });
      plainIndex = plot.get("spatialIndex");
      return;
    }
    rows = Uint32Array.from(below.concat(Array.from(z.keys()).filter((i) => z[i] !== grey)));
    slots = new Uint32Array(n);
    rows.forEach((i, slot) => (slots[i] = slot));
    await plot.draw({ x: x.map((_, t) => x[rows[t]]), y: y.map((_, t) => y[rows[t]]), z: z.map((_, t) => z[rows[t]]) }, { zDataType: "categorical" });
  }
  let coloured = null;
  const theme = () => (dark ? "dark" : "light");
  function palette() {
    const scale = SCALES[theme()], grey = GREYS[theme()];
    if (coloured === null) return [PLAIN[theme()]];
    if (coloured.kind === "category") return [...coloured[theme()], grey];
    return [...Array.from({ length: STEPS }, (_, t) => mixed(scale, (t / (STEPS - 1)) * (scale.length - 1))), grey];
  }
  function applyTheme() {
    document.documentElement.dataset.theme = theme();
    $("theme").setAttribute("aria-pressed", dark);
    const colours = palette();
    plot.set({ pointColor: colours, pointColorActive: colours });
    glow();
    for (const dot of document.querySelectorAll("#legend .dot")) dot.style.background = colours[dot.dataset.place];
    for (const bar of document.querySelectorAll("#legend .bar")) bar.style.background = `linear-gradient(to right, ${SCALES[theme()].join(", ")})`;
    refresh();
  }

  // ---- what is over the points

  let ids = null, labelled = true, pinned = -1, hits = [];
  const context = overlay.getContext("2d");
  let waiting = false;
  function refresh() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      drawOverlay();
    });
  }
  function ring(at, radius, colour, width = 2) {
    context.beginPath();
    context.arc(at[0], at[1], radius, 0, 7);
    context.lineWidth = width;
    context.strokeStyle = colour;
    context.stroke();
  }
  // Of a map that has grown: from where to where points have moved, the farthest first.
  let before = null, moved = [];
  function readBefore() {
    if (!header.before.length) return;
    before = header.before.map((at) => columns[at].values);
    const [bx, by] = before, { middle, span } = header.frame;
    const way = (i) => Math.hypot((qx[i] / 65535 - 0.5) * span + middle[0] - bx[i], (qy[i] / 65535 - 0.5) * span + middle[1] - by[i]) / span;
    const ways = Float32Array.from({ length: n }, (_, i) => way(i));
    moved = Array.from(ways.keys()).filter((i) => ways[i] > LEAST_WAY).sort((a, b) => ways[b] - ways[a]).slice(0, ARROWS);
  }
  function cameFrom(i) {
    const { middle, span } = header.frame, { low, across, up } = view();
    const [px, py] = before.map((values, c) => 2 * fit * (values[i] - middle[c]) / span);
    return [(px - low[0]) / across, size().height - (py - low[1]) / up];
  }
  function arrows() { // of all points while the colours tell of them, and of the one that is looked at
    if (!before) return [];
    const all = coloured !== null && OF_GROWTH.includes(coloured.name);
    return all ? moved.filter((i) => shown[i]) : moved.includes(pinned) ? [pinned] : [];
  }
  function arrow(from, to, colour, back) {
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]], long = Math.hypot(dx, dy);
    if (long < 4) return;
    const head = Math.min(7, 0.5 * long), [ux, uy] = [dx / long, dy / long];
    const side = (turn) => [to[0] - head * (ux - turn * uy * 0.5), to[1] - head * (uy + turn * ux * 0.5)];
    for (const [ink, wide_] of [[back, 3], [colour, 1.2]]) {
      context.beginPath();
      context.moveTo(...from);
      context.lineTo(...to);
      context.moveTo(...side(1));
      context.lineTo(...to);
      context.lineTo(...side(-1));
      context.lineWidth = wide_;
      context.strokeStyle = ink;
      context.stroke();
    }
  }
  function drawOverlay() {
    const { width, height } = size(), scale = window.devicePixelRatio || 1;
    if (overlay.width !== width * scale || overlay.height !== height * scale) {
      overlay.width = width * scale;
      overlay.height = height * scale;
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const letters = dark ? "#e8ebee" : "#1b1f24", back = dark ? "#14171b" : "#ffffff", lost = dark ? "#ff9d4d" : "#d55e00";
    for (const i of hits.slice(0, LISTED)) ring(placeOf(i), 6, letters, 1.5);
    if (pinned >= 0) {
      const from = placeOf(pinned);
      for (const { row, torn } of neighboursOf(pinned)) {
        const to = placeOf(row);
        context.beginPath();
        context.setLineDash(torn ? [6, 4] : []);
        context.lineWidth = torn ? 2 : 1;
        context.strokeStyle = torn ? lost : letters;
        context.moveTo(...from);
        context.lineTo(...to);
        context.stroke();
        context.setLineDash([]);
        ring(to, 5, torn ? lost : letters);
      }
      ring(from, 8, letters, 3);
    }
    for (const i of arrows()) arrow(cameFrom(i), placeOf(i), letters, back);
    drawGlow();
    if (!labelled) return;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const taken = [], inks = palette();
    const { low, across, up } = view();
    const covered = (left, top, right, bottom) => ink(low[0] + left * across, low[1] + (height - bottom) * up, low[0] + right * across, low[1] + (height - top) * up);
    const seen = [];
    for (const name of names) { // the largest first; a smaller one appears where zooming makes room
      if (!shown[name.row]) continue;
      name.at = placeOf(name.row);
      if (name.at[0] < 0 || name.at[1] < 0 || name.at[0] > width || name.at[1] > height) name.last = undefined;
      else seen.push(name);
      if (seen.length === NAMES) break;
    }
    placed = mapNames.place(seen, width, height, covered);
    for (const { name, line } of placed) {
      if (!line) continue;
      for (const [colour, wide_] of [[back, 3], [inkOf(name, inks, letters), 1]]) {
        context.beginPath();
        context.moveTo(...line[0]);
        context.lineTo(...line[1]);
        context.lineWidth = wide_;
        context.strokeStyle = colour;
        context.stroke();
      }
    }
    for (const { name, x: cx, y: cy } of placed) {
      context.font = name.font;
      name.lines.forEach((text, at) => write(text, cx, cy + (at - (name.lines.length - 1) / 2) * name.step, inkOf(name, inks, letters), back));
      taken.push([cx, cy, name.size[0] / 2, name.size[1] / 2]);
    }
    overlay.dataset.labels = placed.length;
    overlay.dataset.ids = 0;
    if (ids === null || plot.get("cameraDistance") > CLOSE) return;
    const near = plot.get("pointsInView"); // few are left: each has its name
    if (near.length > NAMED) return;
    context.font = "11px system-ui, sans-serif";
    for (const slot of near) {
      const row = rowOf(slot);
      if (!shown[row]) continue;
      const text = idOf(row).slice(0, 30), [cx, cy] = placeOf(row);
      const half = context.measureText(text).width / 2, below = cy + 13;
      if (taken.some((t) => Math.abs(t[0] - cx) < t[2] + half + 3 && Math.abs(t[1] - below) < t[3] + 6)) continue;
      taken.push([cx, below, half, 7]);
      write(text, cx, below, letters, back);
    }
    overlay.dataset.ids = taken.length - overlay.dataset.labels;
  }
  function write(text, cx, cy, ink, back) {
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeStyle = back;
    context.strokeText(text, cx, cy);
    context.fillStyle = ink;
    context.fillText(text, cx, cy);
  }

  // What is seen, in the coordinates of x and y: the lower left, and the size of a pixel.
  function view() {
    const { width, height } = size(), [cx, cy] = plot.get("cameraTarget"), distance = plot.get("cameraDistance");
    const across = (2 * distance) / height;
    return { low: [cx - (across * width) / 2, cy - distance], across, up: across };
  }
  let names = [], placed = [], ink = () => 0;
  const inkOf = (name, inks, letters) => (name.shade < 0 ? letters : dark ? inks[name.shade] : mixed([inks[name.shade], "#000000"], 0.3));
  function nameGroups() { // names follow the column that colours
    const own = coloured !== null && coloured.kind === "category";
    const listed = own ? coloured.labels.map(([row, code, text, share, first]) => ({ row, text, share, first, shade: coloured.shades[code] }))
      : header.labels.map(([row, text]) => ({ row, text, share: 0.3, first: true, shade: -1 }));
    const room = Math.min(1, Math.max(0.75, size().width / 800)); // smaller names in a small window
    names = listed.map((name) => {
      const px = Math.round(10 * room * (name.first ? 1 : 0.85) * (listed.length > 30 ? 10 + 5 * Math.sqrt(name.share) : 11 + 6 * Math.sqrt(name.share))) / 10, lines = name.text.split("\n");
      const font = `${name.first ? 650 : 400} ${px}px ${FONTS}`, step = 1.15 * px;
      context.font = font;
      return { ...name, lines, font, step, size: [Math.max(...lines.map((line) => context.measureText(line).width)) + 6, lines.length * step + 4] };
    });
    const grey = coloured === null ? -1 : palette().length - 1; // hiding noise costs nothing
    ink = mapNames.grid(x, y, (i) => shown[i] && z[i] !== grey);
  }

  // The density of the groups, on a canvas behind the points.
  let behind = null;
  const under = $("glow");
  function glow() {
    const rgb = coloured !== null && coloured.kind === "category" && n >= GLOW_FROM
      ? palette().slice(0, -1).map((hex) => [1, 3, 5].map((c) => parseInt(hex.slice(c, c + 2), 16))) : null;
    behind = rgb && mapNames.glow(x, y, (i) => (shown[i] ? rgb[z[i]] : null));
  }
  function drawGlow() {
    const { width, height } = size();
    under.width = width;
    under.height = height;
    if (!behind) return;
    const { low, across, up } = view(), pen = under.getContext("2d");
    pen.imageSmoothingQuality = "high";
    pen.drawImage(behind.picture, (behind.left - low[0]) / across, height - (behind.top - low[1]) / up, (behind.right - behind.left) / across, (behind.top - behind.bottom) / up);
  }

  // ---- first picture

  let first;
  const drawn = new Promise((resolve) => (first = resolve));
  plot.subscribe("draw", () => { first(); refresh(); });
  plot.subscribe("view", refresh);
  document.documentElement.dataset.theme = theme();
  await drawPoints();
  await drawn;
  document.documentElement.dataset.firstPicture = Math.round(performance.now());
  $("state").textContent = "";

  // ---- the rest of the file, once there is something to see

  if (header.ids === "text") ids = await textsOf("ids");
  const idOf = (i) => (ids ? ids[i] : String(i));
  const columns = [];
  for (const [at, column] of header.columns.entries()) {
    const read = { ...column };
    if (column.kind === "number" || column.kind === "date") {
      read.values = await arrayOf(`column-${at}`, "f4");
      if ("origin" in column) { // the numbers are for colours alone
        read.values = Float64Array.from(read.values, (value) => value * column.unit + column.origin);
        read.written = await textsOf(`written-${at}`);
      }
    } else if (column.kind === "category") {
      read.values = await arrayOf(`column-${at}`, column.type);
      read.names = await textsOf(`names-${at}`);
    } else read.values = await textsOf(`column-${at}`);
    columns.push(read);
  }
  readBefore();
  const k = header.k;
  let neighbours, torn;
  if (k) {
    const moved = await arrayOf("neighbours", "u4");
    torn = await bytesOf("torn");
    neighbours = new Uint32Array(n * k);
    for (let c = 0, at = 0; c < k; c++) for (let i = 0; i < n; i++, at++) { // zigzag: 0, -1, 1, -2, ... rows away
      neighbours[i * k + c] = i + ((moved[at] >>> 1) ^ -(moved[at] & 1));
    }
    const of = (i) => neighboursOf(i).length || 1; // by a relation a point may have fewer than k
    for (const [name, title] of [["missing", "missing neighbours"], ["false", "false neighbours"]]) { // as in page.py
      const counts = await arrayOf(name, "u1");
      columns.push({ name: title, kind: "number", trust: true, values: Float32Array.from(counts, (c, i) => c / of(i)), low: 0, high: 1 });
    }
  }
  if (header.stability) {
    const shares = await arrayOf("stability", "u1");
    columns.push({ name: "stability", kind: "number", trust: true, values: Float32Array.from(shares, (share) => (share === 255 ? NaN : share / 254)), low: 0, high: 1 });
  }
  function neighboursOf(i) {
    if (!k) return [];
    return Array.from({ length: k }, (_, c) => {
      const bit = i * k + c;
      return { row: neighbours[bit], torn: Boolean((torn[bit >> 3] >> (7 - (bit & 7))) & 1) };
    }).filter((near) => near.row !== i); // itself: no more are related
  }
  const shownValue = (column, i) => {
    const value = column.values[i];
    if (column.written) return column.written[i];
    if (column.kind === "number") return Number.isNaN(value) ? "" : column.trust ? percent(value) : Number.isInteger(value) ? String(value) : number(value);
    return column.kind === "category" ? column.names[value] ?? "" : value;
  };

  // ---- cards

  const card = $("card");
  const images = header.images ? await textsOf("images") : null;
  function fillCard(i, whole) {
    card.replaceChildren(make("b", idOf(i), { dir: "auto" }));
    if (images && images[i]) card.append(make("img", undefined, { src: images[i], alt: "" }));
    for (const image of card.querySelectorAll("img")) image.onload = () => standCard(i, whole);
    const facts = make("dl");
    for (const column of columns) {
      const value = shownValue(column, i);
      if (value === "" || (column.trust && !whole)) continue;
      const long = String(value).includes("\n") ? { class: "long" } : {};
      facts.append(make("dt", column.name, long), make("dd", value, { dir: "auto", ...long }));
    }
    card.append(facts);
    if (whole && k) {
      const near = neighboursOf(i), lost = near.filter((each) => each.torn).length;
      const what = !near.length ? "Not related to any" : header.related ? "Most related" : "Nearest in the data";
      card.append(make("div", `${what}${lost ? `; ${lost} of ${near.length} far away in the map` : near.length ? ", all near in the map" : ""}:`));
      const list = make("ol");
      for (const { row, torn: far } of near) {
        const item = make("li", idOf(row) + (far ? "  (far)" : ""), { dir: "auto", ...(far ? { class: "lost" } : {}) });
        item.onclick = () => go(row);
        list.append(item);
      }
      card.append(list);
    }
    card.className = whole ? "" : "hover";
    card.hidden = false;
    standCard(i, whole);
  }
  // A card that stays is where it hides least of its point and of those that lines lead to; in a corner above if it may.
  function standCard(i, whole) {
    const [px, py] = placeOf(i), { width, height } = size(), [wide_, high_] = [card.offsetWidth, card.offsetHeight];
    let left = Math.max(4, Math.min(px + 14, width - wide_ - 6)), top = Math.max(4, Math.min(py + 14, height - high_ - 6));
    if (whole) {
      const seen = [placeOf(i), placeOf(i), ...neighboursOf(i).map(({ row }) => placeOf(row))];
      const hides = ([x0, y0]) => seen.filter(([x1, y1]) => x1 > x0 - 12 && x1 < x0 + wide_ + 12 && y1 > y0 - 12 && y1 < y0 + high_ + 12).length;
      const [right, low] = [Math.max(10, width - wide_ - 10), Math.max(10, height - high_ - 10)], near = px < width / 2 ? [right, 10] : [10, right];
      [left, top] = [10, low].flatMap((y0) => near.map((x0) => [x0, y0])).reduce((best, next) => (hides(next) < hides(best) ? next : best));
    }
    card.style.left = `${left}px`;
    card.style.top = `${top}px`;
  }
  function pin(i) {
    pinned = i;
    if (i >= 0) {
      fillCard(i, true);
      tell([i]);
    } else card.hidden = true;
    refresh();
  }
  function go(i) {
    plot.select([slotOf(i)], { preventEvent: true });
    plot.zoomToLocation([x[i], y[i]], 0.25).then(() => pin(i));
  }
  let drawing = false, ended = -Infinity, selection = null; // of the lasso: its end may look like a click
  plot.subscribe("lassoStart", () => { drawing = true; if (pinned < 0) card.hidden = true; });
  plot.subscribe("lassoEnd", () => { drawing = false; ended = performance.now(); });
  const justEnded = () => performance.now() - ended < 400;
  const again = () => setTimeout(() => selection && plot.select(selection.map(slotOf), { preventEvent: true }));
  plot.subscribe("pointover", (slot) => { if (pinned < 0 && !drawing) fillCard(rowOf(slot), false); });
  plot.subscribe("pointout", () => { if (pinned < 0) card.hidden = true; });
  plot.subscribe("select", ({ points }) => {
    if (drawing) select(points.map(rowOf));
    else if (justEnded()) again();
    else if (points.length === 1) pin(rowOf(points[0]));
    else select(points.map(rowOf));
  });
  plot.subscribe("deselect", () => {
    if (justEnded() && selection) return again();
    select(null);
    return pin(-1);
  });
  function select(points, told = false) {
    selection = points && points.length ? points : null;
    $("selection").textContent = selection ? `${number(selection.length)} points selected` : "";
    if (selection) pin(-1);
    if (!told) tell(selection ?? []);
  }
  const notebook = window.parent === window ? null : window.parent; // around the page
  function tell(points) {
    notebook?.postMessage({ nearfar: "selected", points: Array.from(points) }, "*");
  }
  window.addEventListener("message", ({ source, data }) => {
    if (!notebook || source !== notebook || data?.nearfar !== "select") return;
    const points = Array.from(data.points).filter((i) => i < n);
    pin(-1);
    select(points, true);
    if (points.length) plot.select(points.map(slotOf), { preventEvent: true });
    else plot.deselect({ preventEvent: true });
  });

  // ---- colours and filters

  let off = new Set(), range = null;
  const choice = $("colour");
  choice.append(make("option", "(none)", { value: "-1" }));
  columns.forEach((column, at) => {
    if (column.kind !== "text") choice.append(make("option", column.name, { value: String(at) }));
  });
  function listed(column) { // categories in their order, many by size; noise last
    const counts = new Uint32Array(column.names.length + 1);
    for (let i = 0; i < n; i++) counts[Math.min(column.values[i], column.names.length)]++;
    const order = Array.from(column.names.keys()).filter((at) => counts[at]);
    if (order.length > IN_ORDER) order.sort((a, b) => counts[b] - counts[a]);
    order.sort((a, b) => (column.shades[a] < 0) - (column.shades[b] < 0));
    return { counts, order };
  }
  async function colour(at) {
    coloured = at < 0 ? null : columns[at];
    off = new Set();
    range = null;
    const legend = $("legend");
    legend.replaceChildren();
    if (coloured === null) {
      z.fill(0);
      await drawPoints();
    } else if (coloured.kind === "category") {
      const { counts, order } = listed(coloured), grey = coloured.light.length;
      const shades = [...coloured.shades.map((shade) => (shade < 0 ? grey : shade)), grey];
      for (let i = 0; i < n; i++) z[i] = shades[Math.min(coloured.values[i], coloured.names.length)];
      await drawPoints();
      const list = make("ul");
      for (const code of order.slice(0, LISTED)) {
        const item = make("li", undefined, { role: "button", tabindex: "0" });
        const dot = make("span", undefined, { class: "dot", "data-place": shades[code] });
        item.append(dot, make("span", `${coloured.names[code]} (${number(counts[code])})`, { dir: "auto" }));
        item.onclick = () => {
          off.has(code) ? off.delete(code) : off.add(code);
          item.classList.toggle("off", off.has(code));
          filter();
        };
        item.onkeydown = (event) => { if (event.key === "Enter") item.onclick(); };
        list.append(item);
      }
      legend.append(list);
      if (order.length > LISTED) legend.append(make("p", `and ${number(order.length - LISTED)} smaller ones`));
    } else {
      const { low, high } = coloured, span = high > low ? high - low : 1;
      const ending = (value) => { // of a scale
        if (coloured.kind === "date" && Math.abs(value) < 8e15) return new Date(value).toISOString().slice(0, span > 2 * 864e5 ? 10 : 19).replace("T", " ");
        return coloured.trust ? percent(value) : number(value);
      };
      for (let i = 0; i < n; i++) {
        const value = coloured.values[i];
        z[i] = Number.isNaN(value) ? STEPS : Math.max(0, Math.min(STEPS - 1, Math.floor(((value - low) / span) * STEPS)));
      }
      await drawPoints();
      const bar = make("div", undefined, { class: "bar" });
      const ends = make("div", undefined, { class: "ends" });
      const say = () => ends.replaceChildren(...(range ?? [low, high]).map((end) => make("span", ending(end))));
      legend.append(bar, ends);
      say();
      const sliders = ["lowest", "highest"].map((what, side) => {
        const slider = make("input", undefined, { type: "range", min: 0, max: 100, value: 100 * side, "aria-label": `${what} value shown` });
        slider.oninput = () => {
          const [a, b] = sliders.map((each) => low + (span * each.value) / 100);
          range = [Math.min(a, b), Math.max(a, b)];
          if (range[0] <= low && range[1] >= high) range = null;
          say();
          filter();
        };
        return slider;
      });
      legend.append(...sliders);
    }
    applyTheme();
    filter();
  }
  function mixed(scale, at) {
    const a = scale[Math.floor(at)], b = scale[Math.min(Math.ceil(at), scale.length - 1)], share = at % 1;
    const part = (hex, c) => parseInt(hex.slice(1 + 2 * c, 3 + 2 * c), 16);
    return "#" + [0, 1, 2].map((c) => Math.round(part(a, c) * (1 - share) + part(b, c) * share).toString(16).padStart(2, "0")).join("");
  }
  async function filter() {
    const all = !off.size && !range;
    const kept = [];
    for (let i = 0; i < n; i++) {
      const value = all ? 0 : coloured.values[i];
      shown[i] = all || (range ? value >= range[0] && value <= range[1] : !off.has(value)) ? 1 : 0;
      if (!all && shown[i]) kept.push(i);
    }
    document.documentElement.dataset.shown = all ? n : kept.length;
    await (all ? plot.unfilter() : plot.filter(slots ? kept.map(slotOf) : kept));
    nameGroups();
    glow();
    refresh();
  }
  choice.onchange = () => colour(Number(choice.value));

  // ---- search

  // It answers while one types: in pieces, and what contains more letters is looked for in what was found before.
  let asked = 0, found = { wanted: "", hits: [], whole: false };
  const texts = []; // all of a point that can be searched, in small letters
  function textOf(i) {
    if (texts[i] === undefined) {
      const known = columns.filter((column) => column.kind !== "number" || column.written).map((column) => String(shownValue(column, i)));
      texts[i] = [idOf(i), ...known].join("\n").toLowerCase();
    }
    return texts[i];
  }
  $("search").oninput = search;
  async function search() {
    const wanted = $("search").value.trim().toLowerCase(), mine = ++asked;
    const among = found.whole && found.wanted && wanted.startsWith(found.wanted) ? found.hits : null;
    hits = [];
    if (!wanted) return listHits(true);
    let pause = performance.now();
    for (let at = 0, count = among ? among.length : n; at < count; at++) {
      const i = among ? among[at] : at;
      if (textOf(i).includes(wanted)) hits.push(i);
      if (at % 1000 === 999 && performance.now() - pause > 30) {
        listHits(false);
        await new Promise((resolve) => setTimeout(resolve));
        if (mine !== asked) return undefined;
        pause = performance.now();
      }
    }
    found = { wanted, hits, whole: true };
    return listHits(true);
  }
  function listHits(whole) {
    const list = $("found");
    list.replaceChildren();
    if ($("search").value.trim()) {
      // The shortest first, so that an id that is all of the query leads.
      const first = whole ? [...hits].sort((a, b) => idOf(a).length - idOf(b).length || (idOf(a) < idOf(b) ? -1 : 1)) : hits;
      if (whole) hits = first;
      for (const i of first.slice(0, 30)) {
        const item = make("li", idOf(i), { dir: "auto" });
        item.onclick = () => go(i);
        list.append(item);
      }
      list.append(make("li", hits.length ? `${number(hits.length)} found${whole ? "" : " so far"}` : whole ? "nothing found" : "searching"));
    }
    refresh();
  }
  $("search").onkeydown = (event) => {
    if (event.key === "Enter" && hits.length) go(hits[0]);
  };

  // ---- what can be taken away

  function save(name, blob) {
    const link = make("a", undefined, { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  // A spreadsheet takes text for a formula that begins so; a number, which may begin with a sign, is one.
  const plain = (value) => (/^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value);
  const field = (value) => (/[",\n\r]/.test(plain(value)) ? `"${plain(value).replaceAll('"', '""')}"` : plain(value));
  function table() {
    const rows = selection ?? Array.from(shown.keys()).filter((i) => shown[i]);
    const lines = [["id", "x", "y", ...columns.map((column) => column.name)].map(field).join(",")];
    const { middle, span, outside } = header.frame, afar = new Map(outside.map(([i, ...place]) => [i, place.map(single)]));
    const digits = Math.max(0, Math.min(15, 5 - Math.floor(Math.log10(span))));
    const there = (q, c) => (((q / 65535 - 0.5) * span) + middle[c]).toFixed(digits);
    for (const i of rows) {
      const raw = columns.map((column) => (column.kind === "number" && !column.written && !Number.isNaN(column.values[i]) ? single(column.values[i]) : String(shownValue(column, i))));
      lines.push([idOf(i), ...(afar.get(i) ?? [there(qx[i], 0), there(qy[i], 1)]), ...raw].map(field).join(","));
    }
    return lines.join("\n") + "\n";
  }
  $("csv").onclick = () => save("points.csv", new Blob([table()], { type: "text/csv" }));
  async function picture() {
    const image = await plot.export();
    const whole = make("canvas");
    whole.width = image.width;
    whole.height = image.height;
    const pen = whole.getContext("2d"), points = make("canvas");
    points.width = image.width;
    points.height = image.height;
    points.getContext("2d").putImageData(image, 0, 0);
    pen.fillStyle = dark ? "#14171b" : "#ffffff";
    pen.fillRect(0, 0, whole.width, whole.height);
    drawOverlay();
    pen.drawImage(under, 0, 0, whole.width, whole.height);
    pen.drawImage(points, 0, 0);
    pen.drawImage(overlay, 0, 0, whole.width, whole.height);
    return new Promise((resolve) => whole.toBlob(resolve, "image/png"));
  }
  $("png").onclick = async () => save("map.png", await picture());

  // ---- buttons, keys, fingers

  let lassoing = false;
  function lasso(on) {
    lassoing = on;
    plot.set({ mouseMode: on ? "lasso" : "panZoom" });
    $("lasso").setAttribute("aria-pressed", on);
  }
  function clear() {
    plot.deselect();
    select(null);
    pin(-1);
    asked++;
    hits = [];
    $("search").value = "";
    $("found").replaceChildren();
    lasso(false);
    refresh();
  }
  const camera = () => [plot.get("cameraTarget"), plot.get("cameraDistance")];
  function move(dx, dy, factor = 1) { // by shares of what is seen
    const [[cx, cy], distance] = camera();
    plot.zoomToLocation([cx + dx * distance, cy + dy * distance], Math.min(4, Math.max(1e-3, distance * factor)));
  }
  $("lasso").onclick = () => lasso(!lassoing);
  $("clear").onclick = clear;
  $("reset").onclick = () => plot.reset();
  $("theme").onclick = () => {
    dark = !dark;
    try { localStorage.setItem(THEME, theme()); } catch { /* forgotten, then */ }
    applyTheme();
  };
  $("names").onclick = () => {
    labelled = !labelled;
    $("names").setAttribute("aria-pressed", labelled);
    refresh();
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return clear();
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return undefined;
    const keys = {
      ArrowLeft: () => move(-0.2, 0), ArrowRight: () => move(0.2, 0), ArrowUp: () => move(0, 0.2), ArrowDown: () => move(0, -0.2),
      "+": () => move(0, 0, 0.8), "=": () => move(0, 0, 0.8), "-": () => move(0, 0, 1.25), 0: () => plot.reset(),
      "/": () => $("search").focus(), l: () => lasso(!lassoing),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return undefined;
    event.preventDefault();
    return keys[event.key]();
  });
  const fingers = new Map();
  canvas.addEventListener("pointerdown", (event) => { if (event.pointerType === "touch") fingers.set(event.pointerId, event); });
  for (const end of ["pointerup", "pointercancel", "pointerleave"]) canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId) || lassoing) return;
    const before = [...fingers.values()];
    fingers.set(event.pointerId, event);
    const after = [...fingers.values()], half = Math.min(...Object.values(size())) / 2;
    const centre = (list) => [0, 1].map((c) => list.reduce((sum, f) => sum + (c ? f.clientY : f.clientX), 0) / list.length);
    const spread = (list) => (list.length < 2 ? 1 : Math.hypot(list[0].clientX - list[1].clientX, list[0].clientY - list[1].clientY) || 1);
    const [from, to] = [centre(before), centre(after)];
    move(-(to[0] - from[0]) / half, (to[1] - from[1]) / half, spread(before) / spread(after));
  });
  let settling;
  new ResizeObserver(() => {
    roomy();
    plot.set(size());
    refresh();
    clearTimeout(settling);
    settling = setTimeout(async () => { // the map is as large as the window allows, whatever it was drawn for
      const ratio = refit();
      if (ratio === 1) return;
      const [[cx, cy], distance] = camera();
      plainIndex = null;
      await drawPoints();
      await filter();
      await plot.zoomToLocation([cx * ratio, cy * ratio], distance);
    }, 120);
  }).observe(stage);

  // ---- what the page says

  $("title").textContent = header.title;
  $("summary").textContent = header.summary;
  for (const remark of header.remarks) $("remarks").append(make("li", remark));
  if (header.trust) {
    const { missing, spurious, auc, sizes, r_nx: curve } = header.trust;
    $("trust").hidden = false;
    const [of, instead] = header.related ? [`up to ${k} strongest relations`, "not related"] : [`${k} nearest neighbours`, "far away in the data"];
    $("shares").textContent =
      `Of ${of} of a point, ${percent(missing)} are far away in the map, and ${percent(spurious)} of those that ` +
      `the map shows are ${instead}. Area under R_NX: ${auc.toFixed(3)} (1 is a perfect map, 0 a random one).`;
    const svg = $("curve"), NS = "http://www.w3.org/2000/svg";
    const place = (size_, value) => [24 + 206 * (Math.log(size_) / Math.log(sizes.at(-1))), 108 - 98 * Math.max(0, value)];
    const add = (tag, attributes, text) => {
      const made = document.createElementNS(NS, tag);
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
      if (text) made.textContent = text;
      svg.append(made);
    };
    add("path", { class: "axis", d: "M24 10V108H230", fill: "none" });
    add("path", { class: "curve", d: "M" + sizes.map((s, t) => place(s, curve[t]).map((v) => v.toFixed(1)).join(" ")).join("L") });
    add("text", { x: 2, y: 14 }, "1");
    add("text", { x: 2, y: 110 }, "0");
    for (let s = 1; s <= sizes.at(-1); s *= 10) {
      const [at] = place(s, 0);
      add("path", { class: "axis", d: `M${at} 108v3` });
      add("text", { x: at, y: 121, "text-anchor": "middle" }, number(s));
    }
    add("text", { x: 127, y: 134, "text-anchor": "middle" }, "R_NX by number of neighbours");
  }
  if (header.colour >= 0) {
    choice.value = String(header.colour);
    await colour(header.colour);
  } else filter();
  applyTheme();
  document.documentElement.dataset.ready = Math.round(performance.now());
  notebook?.postMessage({ nearfar: "ready" }, "*");
  // For tests and for scripts in the console.
  window.nearfarMap = { header, plot, columns, neighboursOf, idOf, pin, select, table, picture, colour, x, y, move, placeOf,
    drawn: () => Array.from({ length: n }, (_, slot) => rowOf(slot)),
    arrows, cameFrom, names: () => placed.map(({ name, x: left, y: top, line }) => ({ text: name.text, row: name.row, size: name.size, at: [left, top], led: line !== null })),
    state: () => ({ pinned, selection, shown: Number(document.documentElement.dataset.shown), hits: hits.length, dark }) };
})().catch((error) => {
  document.getElementById("state").textContent = `This page could not be drawn: ${error.message ?? error}`;
  document.documentElement.dataset.failed = String(error.stack ?? error);
});
