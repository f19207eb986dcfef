"""Text: from files or Python objects to numbered words on disk.

``Corpus`` reads and counts, ``Vocabulary`` holds the words, ``EncodedCorpus`` is what is trained on.
"""

from nearfar.text.corpus import Corpus
from nearfar.text.encoded import EncodedCorpus
from nearfar.text.vocabulary import Vocabulary

__all__ = ["Corpus", "EncodedCorpus", "Vocabulary"]
