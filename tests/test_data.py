"""Data sets by name and users' own files: what is read, where it came from, and what is refused."""

import gzip
import hashlib
import io
import json
import math
import re
import runpy
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from workbench.config import CoSENTConfig, SimCSEConfig, parse_columns
from workbench.data import (
    CATALOGUE,
    Pairs,
    Sentences,
    Triplets,
    check,
    dataset_names,
    describe,
    kinds_of,
    load_data,
    load_dev,
    load_pairs,
    load_sentences,
    load_suites,
    load_training,
    overlaps,
    report,
    require_columns,
    split,
    unusable,
    write_split,
)
from workbench.errors import DataError, SettingError

PROJECT = Path(__file__).resolve().parent.parent

# ---- a user's own files

TWO = [("A man plays a guitar.", "A man plays.", 4.5), ("A dog, asleep", "Nothing moves.", 0.25)]
AB = [("a", "b", 1.0), ("c", "d", 0.0)]
BINARY, FIVE = (0.0, 1.0), (0.0, 5.0)
HEADER = "sentence1,sentence2,score\n"
# File -> its content, its pairs, their scale, and a part of `source`.
READ: dict[str, tuple[str, list[tuple[str, str, float]], tuple[float, float], str]] = {
    "semicolon.csv": (
        "\ufeffText A;Text B;Similarity\r\nA man plays a guitar.;A man plays.;4.5\r\nA "
        "dog, asleep;Nothing moves.;.25",
        *(TWO, FIVE, "score = Similarity, scale 0 to 5 is a guess from gold of 0.25 to 4.5"),
    ),
    "quotes.csv": (
        'premise,hypothesis,rating\n"He said ""no"", twice","two\nlines",1\n\n"x",y,2.5\n',
        *(
            [('He said "no", twice', "two lines", 1.0), ("x", "y", 2.5)],
            (1.0, 5.0),
            "score = rating",
        ),
    ),
    "plain.tsv": (
        'sentence1\tsentence2\tscore\n"Yes," he said.\tNA\t3.5\n"No."\tnull\t0.5\n',
        *([('"Yes," he said.', "NA", 3.5), ('"No."', "null", 0.5)], FIVE, ""),
    ),
    "spreadsheet.tsv": (
        'sentence1\tsentence2\tscore\n"a ""b"" c"\td\t3.5\ne\t"f"\t0.5\n',
        *([('a "b" c', "d", 3.5), ("e", "f", 0.5)], FIVE, ""),
    ),
    "spreadsheet lines.tsv": (
        'sentence1\tsentence2\tscore\na\t"two\nlines"\t1\nc\td\t0\n',
        *([("a", "two lines", 1.0), ("c", "d", 0.0)], BINARY, ""),
    ),
    "stray quotes.tsv": (
        'sentence1\tsentence2\tscore\n"a\tb\t1\n"Go" she said\td"\t0\n',
        *([('"a', "b", 1.0), ('"Go" she said', 'd"', 0.0)], BINARY, ""),
    ),
    "two stray quotes.tsv": (
        'sentence1\tsentence2\tscore\n"a\tb\t1\nc\td"\t0\n',
        *([('"a', "b", 1.0), ("c", 'd"', 0.0)], BINARY, ""),
    ),
    "lines.jsonl": (
        '{"anchor": "Grüße", "candidate": "a\\tb", "label": true, "tags": ["x"]}\n\n'
        '{"anchor": "c", "candidate": "d", "label": false}\n',
        *([("Grüße", "a b", 1.0), ("c", "d", 0.0)], BINARY, "classes false < true"),
    ),
    "words.csv": (
        "label,hypothesis,premise\nEntailment,b,a\n-,x,y\ncontradiction,d,c\nneutral,f,e\n",
        *(
            [("a", "b", 2.0), ("c", "d", 0.0), ("e", "f", 1.0)],
            (0.0, 2.0),
            "(1 rows without a gold label left out)",
        ),
    ),
    "stated scale.csv": (
        "id|question1|question2|grade (0-1)\n7|a|b|1\n8|c|d|0\n",
        AB,
        BINARY,
        "score = grade (0-1)",
    ),
    "mac.csv": (
        'sentence1,sentence2,score\ra,"two\nlines",1\r"c, d",e,2.5\r',
        *([("a", "two lines", 1.0), ("c, d", "e", 2.5)], (1.0, 5.0), ""),
    ),
    "decimal comma.csv": (
        HEADER.replace(",", ";") + "1,5;b, c;4,5\nd;2,5;,25\n",
        *([("1,5", "b, c", 4.5), ("d", "2,5", 0.25)], FIVE, ""),
    ),
    "decimal comma.tsv": (HEADER.replace(",", "\t") + "a\tb\t1,0\nc\td\t0\n", AB, BINARY, ""),
    "windows twice.csv": (
        f"{HEADER}a,b,1\r\r\nc,d,0\r\r\n".replace("score\n", "score\r\n"),
        AB,
        (0.0, 1.0),
        "",
    ),
    "excel.csv": ("sep=;\nsentence1;sentence2;score\na;b;1\nc;d;0\n", AB, (0.0, 1.0), ""),
    "excel tabs.csv": (
        'sep=\t\n"sentence1"\t"sentence2"\t"score"\n"a"\t"b, c"\t1\n"d"\t"e"\t0\n',
        *([("a", "b, c", 1.0), ("d", "e", 0.0)], (0.0, 1.0), ""),
    ),
    "excel, a header of two lines.csv": (
        'sep=;\n"sentence1\n(query)";sentence2;score\na;b;1\nc;d;0\n',
        *(AB, (0.0, 1.0), ""),
    ),
    "excel tabs, a quote that is text.csv": (
        'sep=\t\nsentence1\tsentence2\tscore\n"No" she said\tb\t1\nc\td\t0\n',
        *([('"No" she said', "b", 1.0), ("c", "d", 0.0)], (0.0, 1.0), ""),
    ),
    "UPPER.CSV": (f"{HEADER}a,b,1\nc,d,0\n", AB, (0.0, 1.0), ""),
    "commas in the header.csv": (
        "sentence1;sentence2;score (0, 1, 2, 3)\na, x;b;1\nc;d, y;0\n",
        *([("a, x", "b", 1.0), ("c", "d, y", 0.0)], (0.0, 3.0), ""),
    ),
    "long.csv": (
        f"{HEADER}{'a' * 140_000},b,1\nc,d,0\n",
        [("a" * 140_000, "b", 1.0), ("c", "d", 0.0)],
        BINARY,
        "",
    ),
    "other line ends.csv": (
        f"{HEADER}a\u2028b\x0cc\x0bd\x85,e,1\nf,g,0\n",
        *([("a\u2028b\x0cc\x0bd\x85", "e", 1.0), ("f", "g", 0.0)], (0.0, 1.0), ""),
    ),
    "letters.csv": (
        f'{HEADER}a,"Dear all, five\nplease come, now",1\n"Yes, it is",b,0\n',
        *(
            [("a", "Dear all, five please come, now", 1.0), ("Yes, it is", "b", 0.0)],
            (0.0, 1.0),
            "",
        ),
    ),
    "paraphrases.csv": (
        "question1,question2,is_duplicate\na,b,1\nc,d,0\n",
        *(AB, (0.0, 1.0), "scale 0 to 1 is a guess"),
    ),
    "grades.csv": (
        "sentence1,sentence2,similarity\na,b,2\nc,d,1\ne,f,0\n",
        *(
            [("a", "b", 2.0), ("c", "d", 1.0), ("e", "f", 0.0)],
            (0.0, 2.0),
            "a guess from gold of 0 to 2",
        ),
    ),
    "signed.csv": (
        f"{HEADER}a,b,1\nc,d,-1\ne,f,0\n",
        *([("a", "b", 1.0), ("c", "d", -1.0), ("e", "f", 0.0)], (-1.0, 1.0), ""),
    ),
    "below zero.csv": (
        f"{HEADER}a,b,-1\nc,d,-0.5\ne,f,4.5\n",
        *([("a", "b", -1.0), ("c", "d", -0.5), ("e", "f", 4.5)], (-1.0, 4.5), ""),
    ),
    "without the lowest.csv": (
        f"{HEADER}a,b,1.5\nc,d,4.5\n",
        *([("a", "b", 1.5), ("c", "d", 4.5)], FIVE, "a guess from gold of 1.5 to 4.5"),
    ),
    "similar or not.csv": (
        "sentence1,sentence2,label\na,b,1\nc,d,-1\n",
        *([("a", "b", 1.0), ("c", "d", -1.0)], (-1.0, 1.0), ""),
    ),
    "relevance.csv": (
        "query,document,label\na,b,2\nc,d,0\ne,f,1\n",
        *([("a", "b", 2.0), ("c", "d", 0.0), ("e", "f", 1.0)], (0.0, 2.0), ""),
    ),
    "aligned.csv": (
        'sentence1 , sentence2 , score\n"a ""x"" y" , "b, c" , 1\n"d" ,  "e" , 0\n',
        *([('a "x" y', "b, c", 1.0), ("d", "e", 0.0)], BINARY, ""),
    ),
    "glue.csv": (
        "text,text_pair,label\na,b,1\nc,d,0\n",
        AB,
        BINARY,
        "sentence1 = text, sentence2 = text_pair",
    ),
}
# File -> its content, and a pattern of the refusal.
REFUSED: dict[str, tuple[str | bytes, str]] = {
    "lists of pandas.csv": (
        "query,pos,neg\na,\"['b', 'c']\",\"['d']\"\n",
        r"pos has \['b', 'c'\] where a text should be; write one text in a cell",
    ),
    "bytes.csv": (
        f"{HEADER}b'a plane',b'an air plane',1\n",
        "sentence1 has b'a plane' where a text should",
    ),
    "dictionaries.csv": (f"{HEADER}{{'text': 'a'}},{{'text': 'b'}},1\n", "sentence1 has ."),
    "ids.csv": (
        "question_id,question,answer\n1001,a,b\n1002,c,d\n",
        "score is larger for closer texts .*score=NAME",
    ),
    "year.csv": ("title,abstract,year\na,b,1999\nc,d,2001\n", "score=NAME"),
    "distance.csv": ("text_a,text_b,cosine_distance\na,b,0.1\nc,d,0.7\n", "score=NAME"),
    "rank.csv": ("query,document,rank\na,b,1\nc,d,2\n", "score=NAME"),
    "numbered.csv": ("#,first_x,second_x\n1,a,b\n2,c,d\n", "score=NAME"),
    "numbers.csv": ("Nr.,first_x,second_x\n1,a,b\n2,c,d\n", "score=NAME"),
    "range of a distance.csv": ("a_x,b_x,distance (0-1)\na,b,0.1\nc,d,0.7\n", "score=NAME"),
    "three decimals.tsv": ("a_x\tb_x\tmean\na\tb\t3,667\nc\td\t4,333\n", "has a decimal point"),
    "no header.csv": ("a cat,a dog,1.0\nrain,it rains,4.5\n", "is the very first line a header"),
    "no header.tsv": ("a cat\ta dog\t1\nrain\tit rains\t4\n", "is the very first line a header"),
    "thousands.tsv": (
        "text1\ttext2\tscore\na\tb\t1,200\nc\td\t12,000\n",
        "line 2: score is '1,200', not a finite number",
    ),
    "header again.csv": (
        "anchor,positive,negative\na,b,c\nanchor,positive,negative\nd,e,f\n",
        "line 3: the header is repeated here",
    ),
    "half known.csv": (
        "Query,Product,Brand,Relevance\na,b,c,1\n",
        "sentence1 = Query.*--columns .sentence1=Query,sentence2=",
    ),
    "header twice.csv": (
        f"{HEADER}a,b,1\n{HEADER}",
        "line 3: the header is repeated here; remove",
    ),
    "names twice.csv": ("sentence1,sentence1,score\na,b,1\n", "a column name is repeated"),
    "unquoted comma.csv": (f"{HEADER}a,b,1\nc, d,e,2\n", "3 fields in line 3, saw 4; .* in quotes"),
    "decimal comma in quotes.csv": (
        HEADER + 'a,b,"4,5"\n',
        "line 2: score is '4,5', not a finite number",
    ),
    "two kinds of decimals.csv": (
        HEADER.replace(",", ";") + "a;b;4,5\nc;d;1.5\n",
        "line 2: score is '4,5', not a finite number",
    ),
    "missing cell.csv": (f'{HEADER}"a\nb",b,1\nc,,2\n', "line 4: sentence2 is empty"),
    "missing score.jsonl": (
        '{"text1": "a", "text2": "b", "score": 1}\n\n{"text1": "a", "text2": "b"}\n',
        "line 3: score",
    ),
    "half a character.jsonl": (
        '{"text1": "a\\ud800", "text2": "b", "score": 1}\n',
        "line 1: not a JSON.*surrogates",
    ),
    "underscore.csv": (f"{HEADER}a,b,1_0\nc,d,2\n", "line 2: score is '1_0', not a finite number"),
    "infinite.csv": (f"{HEADER}a,b,1\n\nc,d,inf\n", "line 4: score is 'inf', not a finite number"),
    "swapped.csv": (
        "sentence1,score,sentence2\na,b,1\nc,d,2\n",
        "sentence2 has a number in every row",
    ),
    "classes.csv": ("premise,hypothesis,label\na,b,0\nc,d,2\n", "0 = entailment.*write the words"),
    "numbered classes.csv": (
        "sentence1,sentence2,label\na,b,0\nc,d,2\ne,f,1\n",
        r"label holds classes as numbers.*0 = entailment.*write the words.*--columns score=label",
    ),
    "numbered from 1.csv": (
        "premise,hypothesis,label\na,b,1\nc,d,2\ne,f,3\n",
        "label holds classes as numbers",
    ),
    "two numbered classes.csv": (
        "text1,text2,label\na,b,1\nc,d,2\n",
        "label holds classes as numbers",
    ),
    "numbered, no gold.jsonl": (
        '{"text1": "a", "text2": "b", "gold_label": 1.0}\n{"text1": "c", "text2": "d", '
        '"gold_label": -1.0}\n'
        '{"text1": "e", "text2": "f", "gold_label": 0.0}\n',
        "gold_label holds classes as numbers",
    ),
    "no gold.csv": (
        f"{HEADER}a,b,4.5\nc,d,-1\ne,f,0\n",
        r"line 3: score is -1, .* no score; drop .* name: score \(-1 to 4.5\)",
    ),
    "opening quote.csv": (
        f'{HEADER}"a,b,1\nc,d,2\n"Go" she said,f,3\n',
        "line 2: a field begins with .*line 4: ",
    ),
    "joined.csv": (
        f'{HEADER}a,b,4\n"c,d,2\ne,f",3\n',
        'line 3: a quote joins it with the lines up to 4.*""',
    ),
    "joined texts.csv": ('query,positive,negative\na,b,"c\nd,e,f"\n', "line 2: a quote joins it"),
    "one uneven.txt": (
        "The boat\tThe ship\t1\nA cook\tA chef\t1\nHe sleeps\tawake\n",
        "or a table; rename",
    ),
    "bars.txt": ("1||a b||c d\n0||e f||g h\n1||i j k\n", "reads as a header or a table"),
    "semicolons.txt": ("a b;c d\ne f;g h\n\ni j;k l\n", "reads as a header or a table"),
    "commas.txt": (
        "The boat leaves,The ship departs,4\nA cook,A chef,5\n",
        "reads as a header or a table",
    ),
    "words.txt": (
        "A man eats,A man sleeps,contradiction\nA dog runs,It moves,entailment\nIt rains.,Sun,no\n",
        "reads as a header or a table",
    ),
    "quoted.txt": ('"a b","c d"\n"e f","g h"\n', "reads as a header or a table"),
    "of R.txt": ('"1" "a b" "c d" 4.5\n"2" "e f" "g h" 1\n', "reads as a header or a table"),
    "lists.txt": ('["a b", "c d"]\n["e f", "g h"]\n', "reads as a header or a table"),
    "objects.txt": ('{"text": "a b"}\n{"text": "c d"}\n', "reads as a header or a table"),
    "names.txt": ("anchor,positive,negative\na,b,c\n", "reads as a header or a table"),
    "some mac.csv": (f"{HEADER}a,b\rc,1\nd,e,2\n", "line 2: score is '', not a finite number"),
    "nul.csv": (f"{HEADER}a,b,1\nc,d\0,2\n", "line 3: byte 0x00 is not UTF-8"),
    "utf-16 without a mark.csv": (HEADER.encode("utf-16-le"), "line 1: byte 0x00 is not UTF-8"),
    "list.jsonl": (
        '{"text": "a"}\n{"text": ["b", "c"]}\n',
        r"line 2: text is .*\(list\), not text",
    ),
    "number.jsonl": ('{"text": "a"}\n{"text": 7}\n', r"line 2: text is '7' \(int\), not text"),
    "truth.jsonl": (
        '{"text": "a"}\n\n{"text": true}\n',
        r"line 3: text is 'True' \(bool\), not text",
    ),
    "passages.jsonl": (
        '{"query": "a", "pos": [{"text": "b"}], "neg": ["c"]}\n',
        r"line 1: pos is .*\(dict\), not text",
    ),
    "nested.jsonl": (
        '{"query": "a", "pos": ["x"], "neg": ["c", ["d"]]}\n',
        r"line 1: neg is .*\(list\), not text",
    ),
    "anchors.jsonl": (
        '{"anchor": ["a"], "positive": ["b"], "negative": ["c"]}\n',
        "line 1: anchor is .*list",
    ),
    "no negative.jsonl": (
        '{"query": "a", "pos": ["b"]}\n',
        "without a score or a negative.*negative=NAME",
    ),
    "empty lists.jsonl": (
        '{"query": "a", "pos": ["b"], "neg": []}\n',
        "no row has both a text in pos and one in neg",
    ),
    "excel alone.csv": ("sep=;\n", "has a header .* but no rows"),
    "no delimiter.csv": (
        "sep=\\\nsentence1\\sentence2\na\\b\n",
        r"the columns are sep=\\ \(recognised: none",
    ),
    "two golds.csv": (
        "sentence1,sentence2,rating,grade\na,b,1,2\n",
        "score could be 'rating' or 'grade'",
    ),
    "header.txt": ("Sentence\none\ntwo\n", "line 1, 'Sentence', reads as a header"),
    "a table.txt": ("a\tb\t1\nc\td\t2\n", "or a table; rename the file to .tsv"),
    "open quote.csv": (
        f'{HEADER}"a,b,1\nc,d,2\n',
        "line 2: a field begins with a quote and does not end",
    ),
    "latin.csv": (f"{HEADER}a,é,1\n".encode("latin-1"), "line 2: byte 0xe9 is not UTF-8"),
    "half a letter.jsonl": (
        '{"text": "a"}\n{"text": "\\ud800"}\n',
        "line 2: .*surrogates not allowed",
    ),
    "array.jsonl": ('[{"text1": "a"}]\n', "line 1: not a JSON object"),
    "blank.csv": ('text\n""\n" "\n', "line 2: text is empty .the first of 2 such rows"),
    "cut.csv.gz": (gzip.compress(b"sentence\n" + bytes(range(97, 123)) * 9)[:30], "cannot be read"),
    "none.parquet": ("sentence", "cannot be read as Parquet"),
    "pointer.txt": ("version https://git-lfs.github.com/spec/v1\nsize 9\n", "a pointer of Git LFS"),
    "page.csv": ("<!DOCTYPE html>\n<p>score,text\n", "or a web page; download the file itself"),
    "one other class.csv": (
        f"{HEADER}a,b,Entailment\nc,d,hidden\ne,f,neutral\n",
        "line 3: score is 'hidden', not one of 'contradiction', 'neutral', 'entailment', '-'; drop",
    ),
    "one other class of two.csv": (
        f"{HEADER}a,b,entailment\nc,d,entailment\ne,f,not_entailment\nh,i,N/A\n",
        "line 5: score is 'n/a', not one of 'not_entailment', 'entailment', '-'",
    ),
    "decimal commas and one that is missing.csv": (
        "sentence1;sentence2;score\na;b;4,5\nc;d;NA\n",
        "line 3: score is 'NA', not a finite number; drop the row",
    ),
    "one column of texts.csv": (
        "nr;Satz\n1;ein Hund\n2;eine Katze\n",
        'give --columns "sentence=Satz"',
    ),
    "workers.csv": (
        "HITId,WorkerId,Input.one,Input.two,Answer.mean\n1,A,a,b,2\n1,B,c,d,4\n",
        "sentence1=Input.one,sentence2=Input.two,score=NAME",
    ),
    "stsb-dev.csv": (f"{HEADER}a,b,1\n", "stsb-dev is the name of a data set of the catalogue"),
}


def rows(data: Any) -> list[Any]:
    more = [getattr(data, name) for name in ("gold", "label") if hasattr(data, name)]
    return list(zip(*data.texts, *more, strict=True))


def training(name: str, encoder: str = "bert-base-uncased", **settings: Any) -> SimCSEConfig:
    return SimCSEConfig(train=name, encoder=encoder, **settings)


def test_a_file_is_read_as_it_is_meant(tmp_path: Path) -> None:
    for name, (content, expected, scale, source) in READ.items():
        (tmp_path / name).write_bytes(content.encode())
        pairs = load_pairs(tmp_path / name)
        assert (rows(pairs), pairs.score_range) == (expected, scale), name
        assert source in pairs.source


class Stays:
    """Count the stays in the modules of workbench.data while a function runs.

    A stay begins when code of another module than its caller's is called. Calls within a module,
    and returns to one, begin none.
    """

    def __init__(self) -> None:
        self.functions: list[str] = []

    def count(self, function: Any, *arguments: Any) -> int:
        sys.setprofile(self._profile)
        try:
            function(*arguments)
        finally:
            sys.setprofile(None)
        return len(self.functions)

    def _profile(self, frame: Any, event: str, _argument: Any) -> None:
        module = frame.f_globals["__name__"]
        is_entered = event == "call" and module != frame.f_back.f_globals["__name__"]
        if is_entered and module.startswith("workbench.data."):
            self.functions.append(f"{module}.{frame.f_code.co_qualname}")


def test_a_file_becomes_a_set_in_one_pass(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(HEADER + "a,b,1\nc,d,0\ne,f,5\n")
    assert Stays().count(load_pairs, path) <= 16
    path.write_text(HEADER + "a,b,1\nc,d,0\ne,f,4\n")  # another content, so nothing is cached
    assert Stays().count(load_training, CoSENTConfig(train=str(path))) <= 17


PROSE = [
    [
        "1,000 people came, and 300 left.",
        "In 1990, 3 men sailed to Rome, then to Paris",
        "1990, a good year",
    ],
    ["It was the spring of 1,000", "They moved on May 1, 1990", "Paris, 2024"],
    ["She sang; he danced.", "The seller delivers;", "Rain fell; the match was cancelled;"],
    ["Weather today | The Daily News", "Sport: a late goal | The Daily News"],
    ["\tIndented text", "\tMore of it\t", "And a third line"],
    ["你好,世界", "今天天气很好,我们去公园吧"],
    ["Well,yes", "No"],
    ['"Yes," she said.', '"Go," he said, "and wait."', "They went."],
]


def test_lines_between_two_quotes_of_a_single_column_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "dialogue.tsv"
    lines = '"I will go.\nHe waited.\nThen he left."\n'
    path.write_text(f'sentence\n{lines}He said "no".\n')
    assert load_sentences(path).sentences == [*lines.splitlines(), 'He said "no".']
    path.write_text(f"sentence\n{lines}")
    with pytest.raises(DataError, match="quotes goes over several lines; put the header in quotes"):
        load_sentences(path)
    path.write_text(f'"sentence"\n{lines}')
    assert load_sentences(path).sentences == [" ".join(lines.strip('"\n').splitlines())]


def test_an_empty_label_is_no_label(tmp_path: Path) -> None:
    path = tmp_path / "classes.csv"
    rows = ["a,b,entailment", "c,d,", "e,f,contradiction"]
    path.write_text("\n".join(["premise,hypothesis,label", *rows, ""]))
    assert load_pairs(path).sentence1 == ["a", "e"]


def test_parts_of_a_file_with_zero_bytes_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "web.jsonl"
    rows = [{"text": f"sentence {number} with a\0b"} for number in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    parts = write_split(split(load_sentences(path)), tmp_path)
    texts = [text for part in parts for text in load_sentences(part).sentences]
    assert "sentence 7 with a b" in texts


def test_ordinary_sentences_in_a_text_file_are_no_table(tmp_path: Path) -> None:
    path = tmp_path / "prose.txt"
    for sentences in PROSE:
        path.write_text("\n".join(sentences), encoding="utf-8")
        expected = [sentence.replace("\t", " ") for sentence in sentences]
        assert load_sentences(path).sentences == expected


def test_a_file_that_would_be_read_wrongly_is_refused_in_one_line(tmp_path: Path) -> None:
    for name, (content, refusal) in REFUSED.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(DataError, match=refusal) as caught:
            load_data(tmp_path / name)
        assert str(caught.value).startswith(str(tmp_path / name))
        assert "\n" not in str(caught.value)
    for name in ("mine.json", "mine/"):
        with pytest.raises(DataError, match="convert the file"):
            load_pairs(name)


def test_a_file_in_utf_16_is_read(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-8-sig"):
        (tmp_path / "unicode.tsv").write_bytes(
            f"{HEADER}Grüße,b,1\nc,d,0\n".replace(",", "\t").encode(encoding)
        )
        assert load_pairs(tmp_path / "unicode.tsv").sentence1 == ["Grüße", "c"]
    with pytest.raises(DataError, match="in lower case"):
        load_pairs("My.Csv")


LISTS = [
    {"query": "a", "pos": ["b", "c"], "neg": ["d", "e"], "id": 1},
    {"query": "f", "pos": ["g"], "neg": ["h"], "id": 2},
    {"query": "i", "pos": ["j"], "neg": [], "id": 3},
    {"query": "k", "pos": None, "neg": ["l"], "id": 4},
    {"query": "m", "pos": "n", "neg": ["o"], "id": 5},
]
COMBINED = [
    ("a", "b", "d"),
    ("a", "b", "e"),
    ("a", "c", "d"),
    ("a", "c", "e"),
    ("f", "g", "h"),
    ("m", "n", "o"),
]


def test_lists_of_positives_and_negatives_become_a_triplet_for_each_two(tmp_path: Path) -> None:
    (tmp_path / "lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in LISTS))
    frame = (
        pd.DataFrame(LISTS).replace({"n": None}).assign(pos=[["b", "c"], ["g"], ["j"], None, ["n"]])
    )
    frame.to_parquet(tmp_path / "lists.parquet")
    renamed = frame.rename(columns={"query": "anchor", "pos": "positives", "neg": "hard_negatives"})
    for data in (
        load_data(tmp_path / "lists.jsonl"),
        load_data(tmp_path / "lists.parquet"),
        Triplets.from_frame(frame),
        Triplets.from_frame(renamed),
        Triplets.from_frame(Dataset.from_list(frame.to_dict("records"))),
        Triplets.from_frame(frame.rename(columns={"pos": "good"}), columns={"positive": "good"}),
    ):
        assert rows(data) == COMBINED
        assert data.extra == {"id": ["1", "1", "1", "1", "2", "5"]}
        assert re.search(
            r"6 triplets of the lists in 3 rows \(2 rows without \w+ or \w+ left out\)", data.source
        )
    named = {"pos": "positive", "neg": "negative"}
    for score in ("label", "score"):  # the columns of pairs are there too
        frame.rename(columns=named).assign(**{score: 1}).to_parquet(tmp_path / "graded.parquet")
        assert rows(load_data(tmp_path / "graded.parquet")) == COMBINED
    wide = pd.DataFrame(
        {"query": ["a", "b"], "pos": [["c"], ["d"]], "neg": [["e"] * 3, ["f", b"g"]]}
    )
    with pytest.raises(DataError, match=r"frame, row 1: neg is \"b'g'\" \(bytes\), not text"):
        Triplets.from_frame(wide)


def test_cells_that_are_no_text_never_become_text() -> None:
    for cell in (["b"], {"b": 1}, b"b", True, 7, 0.5, pd.Timestamp("2020-01-01")):
        with pytest.raises(DataError, match=r"row 1: (sentence|sentence1) is .*, not text"):
            Sentences.from_lists(["a", cell])
        with pytest.raises(DataError, match=r"row 1: (sentence|sentence1) is .*, not text"):
            Pairs.from_lists(["a", cell], ["c", "d"], [0, 1])
    assert Sentences.from_lists(["007", None, "a", math.nan]).sentences == ["007", " ", "a", " "]
    assert Sentences.from_frame({"text": ["a", "b"], "tags": [["x"], {"y": 1}]}).extra["tags"] == [
        "['x']",
        "{'y': 1}",
    ]
    twice = pd.DataFrame([["a", "b", 1]], columns=["text", "text", "score"])
    with pytest.raises(DataError, match=r"frame: a column name is repeated \('text'\)"):
        Sentences.from_frame(twice)


def test_one_content_from_a_file_or_from_memory_is_one_set(tmp_path: Path) -> None:
    frame = pd.DataFrame(TWO, columns=["sentence1", "sentence2", "score"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.tsv.gz", sep="\t", index=False)
    one, other = (load_pairs(tmp_path / name) for name in ("a.csv", "a.tsv.gz"))
    assert one.checksum == other.checksum
    # A browser unpacks some files and keeps their names, or takes an ending away.
    (tmp_path / "b.csv.gz").write_bytes((tmp_path / "a.csv").read_bytes())
    (tmp_path / "c.tsv").write_bytes((tmp_path / "a.tsv.gz").read_bytes())
    assert {load_pairs(tmp_path / name).checksum for name in ("b.csv.gz", "c.tsv")} == {
        one.checksum
    }
    for made in (
        Pairs.from_lists(*(frame[name] for name in frame)),
        Pairs.from_frame(Dataset.from_pandas(frame)),
    ):
        assert rows(made) == rows(other) == TWO
    with pytest.raises(DataError, match=r"row 0: sentence1 is empty \(the first of 2 such rows\)"):
        Pairs.from_lists(["", "b", None], ["c", "d", "e"], [1, 2, 3])
    (tmp_path / "three.csv").write_text("anchor,positive,negative\na,b,c\nd,e\n")
    with pytest.raises(DataError, match="line 3: negative is empty"):
        load_data(tmp_path / "three.csv")
    with pytest.raises(DataError, match="gold of row 1"):
        Pairs(
            "mine",
            ["a", "b"],
            ["c", "d"],
            np.array([0.5, np.nan]),
            None,
            ["0", "1"],
            (0, 1),
            "made",
            "",
        )


def test_the_kind_follows_from_the_columns_and_empty_sentences_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    for content, columns, kinds in (
        ("anchor,positive,negative\na,b,c\n", None, ("triplets",)),
        ("source,sentence,label\na,x,b\nc,y,d\n", None, ("sentences",)),
        ("body,query,label\na,x,b\nc,y,d\n", {"sentence": "body"}, ("sentences",)),
        ("query,positive,negative,score\na,b,c,1\n", None, ("triplets", "pairs")),
    ):
        path.write_text(content)
        assert kinds_of(path, columns) == kinds
        assert load_data(path, columns=columns).kind == kinds[0]
    # The settings of the training say which kind of a file is meant.
    for method, kind in ((SimCSEConfig, "triplets"), (CoSENTConfig, "pairs")):
        changes = {"supervised": True} if kind == "triplets" else {}
        config = method.from_parameters("demo", 0, {"train": str(path), **changes})
        assert load_training(config).kind == kind
    assert "not read: score" in load_data(path).source
    path.write_text("text,category\na,x\nb,y\n")
    trained: Any = load_training(training(str(path)))
    assert trained.sentences == ["a", "b"]
    assert "not read: category" in trained.source
    with pytest.raises(DataError, match="mr holds labelled sentences"):
        load_training(training("mr"))
    (tmp_path / "my sentences.txt").write_bytes(b"one\r\ntwo\twords\n\nthree")
    assert load_sentences(tmp_path / "my sentences.txt").sentences == [
        "one",
        "two words",
        " ",
        "three",
    ]
    (tmp_path / "some mac.txt").write_bytes(b"one\ntwo\rthree\r\n")
    assert load_sentences(tmp_path / "some mac.txt").sentences == ["one", "two", "three"]
    for name in ("a column.csv", "a column.tsv"):
        (tmp_path / name).write_text("text\na\n\nb\n")
        assert load_sentences(tmp_path / name).sentences == ["a", " ", "b"]


def test_a_column_of_numbers_is_text_if_it_is_chosen(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("sentence1,sentence2,score\na,12,1\nc,13,3\n")
    with pytest.raises(
        DataError, match=r"sentence2 has a number in every row.*--columns sentence2"
    ):
        load_pairs(path)
    pairs = load_pairs(path, columns={"sentence2": "sentence2"})
    assert pairs.sentence2 == ["12", "13"]


def test_a_scale_of_a_file_without_scores_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("a dog\na cat\n")
    with pytest.raises(DataError, match="read as sentences, which have no scores"):
        load_data(path, scale=(0, 5))


def test_columns_and_scale_that_are_chosen_overrule_the_guess(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("left,right,how close,score\na,b,1,9\nc,d,3,9\n")
    chosen = parse_columns("sentence1=left,sentence2=right,score=how close")
    pairs = load_pairs(path, columns=chosen, scale=(0, 4))
    assert (rows(pairs), pairs.score_range) == ([("a", "b", 1.0), ("c", "d", 3.0)], (0, 4))
    assert pairs.extra == {"score": ["9", "9"]}
    wrong: list[tuple[Mapping[str, Any], str]] = [
        (
            {"columns": {"sentence1": "left", "sentence2": "rigth"}},
            "no column 'rigth' in .*; did you mean 'right'",
        ),
        ({"columns": {"negative": "left"}}, r"recognised: none.*the roles of pairs are sentence1"),
        (
            {"columns": chosen, "scale": (0, 2)},
            "line 3: how close is '3', not a number from 0 to 2",
        ),
        *(
            ({"columns": chosen, "scale": scale}, "give the lowest score")
            for scale in ((5, 1), (0, 1, 5), "0-5")
        ),
        ({"columns": chosen, "scale": (0, math.inf)}, r"scale is \(0, inf\)"),
    ]
    for options, refusal in wrong:
        with pytest.raises(DataError, match=refusal):
            load_pairs(path, **options)
    with pytest.raises(DataError, match="only be set for your own file"):
        load_pairs("world-dev", scale=(0, 1))
    with pytest.raises(SettingError, match="ROLE=COLUMN"):
        parse_columns("left")


LOOSE = [
    ("links,rechts,score", ["a cat,a dog,1.5", "rain,it rains,4"], ("links", "rechts", "score")),
    (",one,two,gold", ["0,a cat,a dog,1", "1,rain,it rains,4"], ("one", "two", "gold")),
    ("Unnamed: 0,rating,x,y", ["0,1,a cat,a dog", "1,4,rain,it rains"], ("x", "y", "rating")),
    ("answer,wording,grade", ["a cat,a dog,1", "rain,it rains,4"], ("wording", "answer", "grade")),
    ("x,query,score", ["a cat,a dog,1", "rain,it rains,4"], ("query", "x", "score")),
    (
        "#,first_x,second_x,words,sim",
        ["1,a cat,a dog,4,1", "2,rain,it rains,3,4"],
        ("first_x", "second_x", "sim"),
    ),
    (
        "Original version,Simplified version,rating",
        ["a cat,a dog,1", "rain,it rains,4"],
        ("Original version", "Simplified version", "rating"),
    ),
    ("text,author,score", ["a cat,Ann,3", "rain,Bob,4"], ("text", "author", "score")),
]


@pytest.mark.parametrize(("header", "lines", "found"), LOOSE, ids=[case[0] for case in LOOSE])
def test_two_texts_beside_a_score_are_pairs_whatever_their_names(
    header: str, lines: list[str], found: tuple[str, str, str], tmp_path: Path
) -> None:
    path = tmp_path / "loose.csv"
    path.write_text("\n".join([header, *lines, ""]))
    cells = pd.read_csv(path)
    pairs = load_pairs(path)
    assert (pairs.sentence1, pairs.sentence2) == tuple(cells[name].tolist() for name in found[:2])
    assert pairs.gold.tolist() == cells[found[2]].tolist()
    for role, column in zip(("sentence1", "sentence2", "score"), found, strict=True):
        assert role == column or f"{role} = {column}" in pairs.source, "the guess is stated"
    # A column that is called "text" are sentences, unless pairs are asked for.
    first = "sentences" if "text" in found else "pairs"
    assert kinds_of(path)[0] == first
    assert "pairs" in kinds_of(path)


NO_SCORES = (
    "cosineDistance dissimilarity levenshtein wer divergence cost mse annotator n_tokens 4.5"
)


@pytest.mark.parametrize("number", NO_SCORES.split())
@pytest.mark.parametrize("texts", ["left,right", "sentence1,sentence2"])
def test_a_number_of_an_unknown_name_is_no_score(number: str, texts: str, tmp_path: Path) -> None:
    path = tmp_path / "loose.csv"
    path.write_text(f"{texts},{number}\na cat,a cat,0\na cat,it rains,7.5\n")
    first, second = texts.split(",")
    remedy = f"columns .sentence1={first},sentence2={second},score=NAME"
    with pytest.raises(DataError, match=f"a score is larger for closer texts.*{remedy}"):
        load_pairs(path)
    assert load_pairs(path, columns=parse_columns(remedy.split()[1].replace("NAME", number)))


@pytest.mark.parametrize(
    ("table", "options"),
    [
        ("a,b,n,m\nx,y,1,2\nz,u,2,3\n", "sentence1=a,sentence2=b,score=NAME"),
        ("n,a,b,c\n1,x,y,p\n2,z,u,q\n", "sentence1=a,sentence2=b,score=NAME"),
        ("id,a,b\n0,x,y\n1,z,u\n", "sentence1=a,sentence2=b,score=NAME"),
        ("ticket\nx\ny\n", "sentence=ticket"),
        ("answer,b,n,m\nx,y,1,2\nz,u,2,3\n", "sentence1=b,sentence2=answer,score=NAME"),
    ],
)
def test_doubtful_columns_are_refused_with_the_options_that_name_them(
    table: str, options: str, tmp_path: Path
) -> None:
    path = tmp_path / "loose.csv"
    path.write_text(table)
    (problem,) = unusable(check([str(path)]))
    assert f'give --columns "{options}" or other names' in problem
    assert "damaged" not in str(check([str(path)]))
    if "n,m" in table or "NAME" not in options:
        assert len(load_data(path, columns=parse_columns(options.replace("NAME", "n")))) == 2


def test_what_is_loaded_may_be_shuffled_and_an_index_may_be_called_as_a_column(tmp_path: Path):
    path = tmp_path / "mine.txt"
    path.write_text("one\ntwo\nthree\n")
    load_sentences(path).sentences.reverse()
    assert load_sentences(path).sentences == ["one", "two", "three"]
    table = pd.DataFrame({"id": [1], "sentence1": ["a"], "sentence2": ["b"], "score": [1.0]})
    table.set_index("id", drop=False).to_parquet(tmp_path / "twice.parquet")
    with pytest.raises(DataError, match="a column name is repeated"):
        load_pairs(tmp_path / "twice.parquet")


def test_classes_under_an_unusual_name_are_no_scores(tmp_path: Path) -> None:
    path = tmp_path / "loose.csv"
    path.write_text("a,b,gold_label\nx,y,0\nz,u,1\nv,w,2\n")
    with pytest.raises(DataError, match=r"holds classes as numbers.*--columns score=gold_label"):
        load_pairs(path)
    assert load_pairs(path, columns={"score": "gold_label"}).gold.tolist() == [0, 1, 2]


def test_settings_have_the_columns_of_files_and_each_takes_its_own(tmp_path: Path) -> None:
    (tmp_path / "lines.csv").write_text("k,body,title\n1,a,b\n2,c,d\n")
    (tmp_path / "graded.csv").write_text("n,m,a,b\n1,9,x,y\n2,9,z,u\n3,9,v,w\n")
    files = {
        "train": str(tmp_path / "lines.csv"),
        "dev": str(tmp_path / "graded.csv"),
        "suites": ["ladders-all", str(tmp_path / "graded.csv")],
    }
    columns = "sentence=body,sentence1=b,sentence2=a,score=n"
    config = SimCSEConfig.from_parameters("demo", 0, files | {"columns": columns})
    require_columns(config)
    trained: Any = load_training(config)
    assert trained.sentences == ["a", "c"]
    assert load_dev(config).sentence1 == ["y", "u", "w"]
    graded: Any = load_suites(config)["graded"]
    assert graded.gold.tolist() == [1, 2, 3]
    other = SimCSEConfig.from_parameters(
        "demo", 0, files | {"columns": columns.replace("score=n", "score=m")}
    )
    assert other.digest() != config.digest(), "another reading is another run"
    wrong = config.model_copy(update={"columns": {"sentence": "boby"}})
    with pytest.raises(DataError, match=r"no column 'boby' .*; did you mean 'body'"):
        require_columns(wrong)
    with pytest.raises(SettingError, match="score is given twice"):
        parse_columns("score=n,score=m")


def test_a_split_is_by_query_and_its_files_load_with_the_same_scale(tmp_path: Path) -> None:
    made = [
        (f"query {query}", f"target {query}.{target}", 0.5 + target)
        for query in range(20)
        for target in range(4)
    ]
    frame = pd.DataFrame(made, columns=["sentence1", "sentence2", "score"]).assign(id=range(80))
    pairs = Pairs.from_frame(frame, name="mine", scale=(0, 10))
    parts = split(pairs, dev=0.2, test=0.1, seed=3)
    assert {part: len(data) for part, data in parts.items()} == {"train": 56, "dev": 16, "test": 8}
    assert sorted(row for data in parts.values() for row in rows(data)) == sorted(made)
    assert not overlaps(parts)
    assert len({data.checksum for data in [pairs, *parts.values()]}) == 4
    assert split(pairs, dev=0.2, test=0.1, seed=3)["dev"].checksum == parts["dev"].checksum
    assert split(pairs, dev=0.2, test=0.1, seed=4)["dev"].sentence1 != parts["dev"].sentence1
    back = load_pairs(write_split(parts, tmp_path)[1])
    assert (rows(back), back.score_range, back.extra) == (
        rows(parts["dev"]),
        (0.0, 10.0),
        parts["dev"].extra,
    )
    with pytest.raises(DataError, match="exists already"):
        write_split(parts, tmp_path)
    # The header of each part has a range in which its scores are, whatever their digits.
    low, high = -11.625153541564941, 7.467155933380127
    logits = Pairs.from_lists(
        list("abcdef"), list("uvwxyz"), [low, high, 0, 1, 2, 3], name="logits", scale=(low, high)
    )
    written = write_split(split(logits, dev=0.2, test=0.2), tmp_path / "logits")
    assert sorted(gold for path in written for gold in load_pairs(path).gold) == [
        *(low, 0, 1, 2, 3, high)
    ]
    kept = {"sentence": list("abcdef"), "label": list("uvwxyz"), "a_raw": list("123456")}
    written = write_split(split(Sentences.from_frame(kept)), tmp_path / "labelled")
    back = pd.concat([pd.read_csv(path, sep="\t", dtype=str) for path in written]).sort_values(
        "sentence"
    )
    assert back.to_dict("list") == kept
    with pytest.raises(DataError, match="remove there what is called sentence or"):
        write_split(
            split(Sentences.from_frame(kept, columns={"sentence": "label"})), tmp_path / "refused"
        )
    assert split(pairs, dev=0.2, test=0).keys() == {"train", "dev"}
    assert [len(set(part.sentence1)) for part in split(pairs, dev=0.01, test=0.02).values()] == [
        *(18, 1, 1)
    ], "one query at least"
    with pytest.raises(DataError, match="of 2 queries leave none to train on"):
        split(Pairs.from_lists(["a", "b"], ["c", "d"], [0, 1]))
    with pytest.raises(DataError, match=r"dev -0\.1 and test 0\.2 .* leave none to train on"):
        split(pairs, dev=-0.1, test=0.2)
    with pytest.raises(DataError, match="give lists, of one text"):
        Sentences.from_lists("a cat sleeps")
    with pytest.raises(DataError, match="leave none to train on"):
        split(pairs, dev=0.5, test=0.5)
    named = split(Pairs.from_frame(frame, name="sick", scale=(0, 10)))
    with pytest.raises(DataError, match="sick-train is a set of the catalogue; rename the file"):
        write_split(named, tmp_path / "catalogue")


@pytest.mark.parametrize(
    ("header", "row", "columns"),
    [
        # Another column could be the gold of the parts.
        ("sentence1,sentence2,score,gold", "{0},{1},{2},{3}", {"score": "score"}),
        ("sentence1,sentence2,score,label", "{0},{1},{2},{3}", {"score": "score"}),
        # Quotes that belong to a text, and names of several lines.
        ("question,answer,score,meta", '"""Yes {0}""",{1},{2},"{{""lang"": """"}}"', None),
        ('question,answer,score,"width ("")"', '" ""{0}""",{1},{2},1', None),
        ("sentence1,sentence2,score", "{0},{1},{3}000000", None),
        ("sentence1,sentence2,score", "{0},{1},-{2}0000.25", None),
        ('sentence1,sentence2,score,"remark\n(internal)"', "{0},{1},{2},x", None),
    ],
)
def test_parts_are_read_as_they_were_split(
    header: str, row: str, columns: dict[str, str] | None, tmp_path: Path
) -> None:
    lines = [row.format(f"one {n}", f"two {n}", n % 5, 4 - n % 5) for n in range(12)]
    (tmp_path / "mine.csv").write_text("\n".join([header, *lines, ""]))
    data = load_data(tmp_path / "mine.csv", columns=columns)
    parts = split(data, dev=0.3, test=0.3)
    for written, part in zip(write_split(parts, tmp_path), parts.values(), strict=True):
        back = load_data(written)
        assert (back.kind, rows(back), back.extra) == (part.kind, rows(part), part.extra)


def test_parts_that_would_be_read_as_another_kind_are_not_written(tmp_path: Path) -> None:
    lines = [f"a {n},b {n},{n}\n" for n in range(12)]
    (tmp_path / "mine.csv").write_text("sentence1,sentence2,score\n" + "".join(lines))
    roles = {"sentence": "sentence1"}
    parts = split(load_data(tmp_path / "mine.csv", columns=roles), dev=0.3, test=0.3)
    with pytest.raises(DataError, match=r"\(sentence2, score\) its parts would be read otherwise"):
        write_split(parts, tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def test_files_are_checked_and_reported_with_what_two_of_them_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Pairs.from_lists(["a", "b", "c", "c"], ["b", "a", "d", "c"], [1, 0.5, 0, 0], name="one")
    assert {"4 rows of pairs", "3 queries (first sentences)", "duplicate rows: 1"} <= {*report(one)}
    counts = {
        "empty sentences (also nan, None, N/A): 3",
        "sentences of more than 64 words (training cuts them): 1",
    }
    assert counts <= {*report(Sentences.from_lists(["a", "", "word " * 70, "NaN", "\u200b"]))}
    other = Pairs.from_lists(["d", "e"], ["c", "f"], [0, 1])
    assert overlaps({"train": one, "test": other}) == ["train and test share 1 rows, 2 sentences"]
    same = overlaps({"train": one, "dev": replace(one, gold=one.gold / 2)})
    assert same == ["train and dev share 3 rows, 3 queries, 4 sentences"]
    monkeypatch.chdir(tmp_path)
    Path("bad.tsv").write_text("sentence1\tsentence2\tscore\na\tb\tmuch\n")
    Path("flat.csv").write_text(f"{HEADER}a,b,1\nc,d,1\n")
    table = check(["bad.tsv", "flat.csv", "world-dev", "world-devv", "gone.tsv"]).set_index("name")
    assert table["kind"].tolist() == ["pairs", "pairs", "pairs", "", ""]
    assert table["status"].tolist() == ["refused", "own file", "bundled", "missing", "missing"]
    assert table.loc["flat.csv", "rows"] == 2
    assert "no correlation" in table.loc["flat.csv", "problem"]
    problems = unusable(table.reset_index())
    for name, problem in zip(["bad.tsv", "world-devv", "gone.tsv"], problems, strict=True):
        assert name in problem


def test_classes_that_a_source_names_are_not_read_as_their_numbers(tmp_path: Path) -> None:
    texts = {"sentence1": ["a", "b", "c"], "sentence2": ["x", "y", "z"]}
    for names, gold in (
        (["entailment", "not_entailment"], [1, 0]),
        (["not_equivalent", "equivalent"], [0, 1]),
        (["entailment", "neutral", "contradiction"], [2, 1]),
    ):
        features = {name: Value("string") for name in texts} | {"label": ClassLabel(names=names)}
        data = Dataset.from_dict(texts | {"label": [0, 1, -1]}, features=Features(features))
        data.to_parquet(tmp_path / "named.parquet")
        rated = data.select([0, 1])
        assert Pairs.from_frame(rated).gold.tolist() == gold
        rated.to_parquet(tmp_path / "rated.parquet")
        assert load_pairs(tmp_path / "rated.parquet").gold.tolist() == gold
        assert load_pairs(tmp_path / "named.parquet").sentence1 == ["a", "b"]  # -1 is no class
    features["label"] = ClassLabel(names=["near", "far"])
    rated = Dataset.from_dict(texts | {"label": [0, 1, 1]}, features=Features(features))
    with pytest.raises(DataError, match="'near'"):
        Pairs.from_frame(rated)


def test_a_list_and_a_dropped_column_in_what_datasets_records_are_no_classes(
    tmp_path: Path,
) -> None:
    table = pa.table({"query": ["a", "b"], "pos": ["c", "d"], "neg": ["e", "f"]})
    # As `datasets` before version 4 wrote it; the column "label" was dropped afterwards.
    features = {"pos": {"dtype": "string", "_type": "Value"}, "ids": [{"dtype": "int64"}]}
    features |= {"query": [{"_type": "Value"}], "label": {"names": ["x"], "_type": "ClassLabel"}}
    facts = json.dumps({"info": {"features": features}})
    pq.write_table(table.replace_schema_metadata({"huggingface": facts}), tmp_path / "a.parquet")
    assert rows(load_data(tmp_path / "a.parquet")) == [("a", "c", "e"), ("b", "d", "f")]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_the_delimiters_in_a_single_column_are_text(ending: str, tmp_path: Path) -> None:
    texts = ["A dog, a cat", "It said: no", *["plain"] * 20, "Wait for it; it comes", "a | b"]
    frame = pd.DataFrame({"sentence": texts})
    frame.to_csv(tmp_path / f"a.{ending}", index=False, sep="," if ending == "csv" else "\t")
    assert load_sentences(tmp_path / f"a.{ending}").sentences == texts


def test_quotes_around_a_single_column_of_a_csv_are_none_of_its_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('sentence\n"A dog barks."\n"It rains, again; yes"\nplain\n')
    texts = ["A dog barks.", "It rains, again; yes", "plain"]
    assert load_sentences(tmp_path / "a.csv").sentences == texts


def test_an_index_with_a_name_is_a_column_and_another_is_none(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["p", "q"], "sentence1": ["a", "b"], "sentence2": ["c", "d"]})
    frame["score"] = [1.0, 2.0]
    for index in ("id", "sentence1"):
        frame.set_index(index).to_parquet(tmp_path / "indexed.parquet")
        for pairs in (load_pairs(tmp_path / "indexed.parquet"), Pairs.from_frame(frame)):
            assert (pairs.extra["id"], pairs.sentence1) == (["p", "q"], ["a", "b"])
    assert list(Pairs.from_frame(frame.iloc[::-1]).extra) == ["id"]
    means = frame.groupby(["sentence1", "sentence2"])[["score"]].mean()
    assert Pairs.from_frame(means).sentence2 == ["c", "d"]
    lists = pd.DataFrame({"query": ["a", "b", "c"], "pos": [["x"], ["y"], []], "neg": [["n"]] * 3})
    repeated = Triplets.from_frame(lists.set_index([[0, 0, 0]]))
    assert "2 triplets of the lists in 2 rows (1 rows without" in repeated.source


def test_text_of_excel_is_read_without_the_quotes_of_its_commas(tmp_path: Path) -> None:
    path = tmp_path / "excel.tsv"
    rows = ['"Hello, world"\tHi there\t4.5', 'Good day\t"Bye, then"\t1.5']
    path.write_text("\n".join([HEADER.strip().replace(",", "\t"), *rows, ""]))
    assert load_pairs(path).sentence1 == ["Hello, world", "Good day"]
    # Another comma shows that quotes are text here.
    path.write_text(path.read_text().replace("Good day", "Good day, all"))
    assert load_pairs(path).sentence1 == ['"Hello, world"', "Good day, all"]


def test_a_text_of_two_lines_may_have_as_many_commas_as_rows(tmp_path: Path) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(f'{HEADER}"Rent 1,200\nFood 1,000,5",the costs,0.5\na,b,1\n')
    assert load_pairs(path).sentence1 == ["Rent 1,200 Food 1,000,5", "a"]


def test_a_key_that_is_given_twice_in_a_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.jsonl"
    path.write_text('{"sentence1": "a", "sentence2": "b", "score": 0.1, "score": 0.9}\n')
    with pytest.raises(DataError, match=r"line 1: .*score is given twice"):
        load_pairs(path)


# ---- the catalogue

STSB_FILE = "sts/stsb.dev.tsv.gz"
STSB = {
    "source_year": ["2012", "2012", "2013"],
    "source_dataset": ["MSRvid"] * 3,
    "sid": ["1", "2", "1"],
    "score": ["5.000", "0", "2.5"],
    "sentence1": ["a plane .", "b .", "c ."],
    "sentence2": ["an air plane .", "d .", "e ."],
    "sentence1_raw": ["A plane.", "B.", "C."],
}


def put(root: Path, file: str, columns: dict[str, list[str]]) -> Path:
    """Write a table in the format of a data root."""
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(["\t".join(columns), *map("\t".join, zip(*columns.values(), strict=True)), ""])
    (root / file).write_bytes(gzip.compress(text.encode()))
    return root / file


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a small local data root without a manifest, in a path with a space."""
    put(tmp_path / "local root", STSB_FILE, STSB)
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path / "local root"))
    return tmp_path / "local root"


def test_pairs_carry_gold_scale_ids_and_source(root: Path) -> None:
    pairs = load_pairs("stsb-dev")
    assert rows(pairs) == list(
        zip(STSB["sentence1"], STSB["sentence2"], [5.0, 0.0, 2.5], strict=True)
    )
    assert (pairs.score_range, pairs.subset, [*pairs.extra]) == (
        (0.0, 5.0),
        None,
        ["source_year", "source_dataset", "sid", "sentence1_raw"],
    )
    assert pairs.pair_id == ["2012:MSRvid:1", "2012:MSRvid:2", "2013:MSRvid:1"]
    assert pairs.source == f"local {root / STSB_FILE} (3 rows; published: 1500)"
    put(root, STSB_FILE, STSB | {"source_year": ["2012"] * 3})
    assert load_pairs("stsb-dev").pair_id == [
        "2012:MSRvid:1.0",
        "2012:MSRvid:2.0",
        "2012:MSRvid:1.1",
    ]
    for column, value, refusal in (
        ("score", "5.01", "line 3: score is '5.01', not a number from 0 to 5"),
        ("sentence2", " ", "line 3: sentence2 is empty"),
        ("sentence2", "one\ttwo", "Expected 7 fields in line 3, saw 8"),
    ):
        put(root, STSB_FILE, STSB | {column: [STSB[column][0], value, STSB[column][2]]})
        with pytest.raises(DataError, match=f"stsb.dev.tsv.gz.*{refusal}"):
            load_pairs("stsb-dev")
    columns = {
        "label": ["entailment", "-", "neutral"],
        "premise": list("abc"),
        "hypothesis": list("efg"),
    }
    put(root, "nli/snli.dev.tsv.gz", columns)
    pairs = load_pairs("snli-dev")
    assert (rows(pairs), pairs.pair_id, pairs.score_range) == (
        [("a", "e", 2.0), ("c", "g", 1.0)],
        ["0", "2"],
        (0.0, 2.0),
    )
    assert "1 rows without a gold label" in pairs.source
    put(root, "nli/snli.dev.tsv.gz", columns | {"label": ["entailment", "-", "maybe"]})
    with pytest.raises(
        DataError, match="line 4: label is 'maybe', not one of 'contradiction', 'neutral'"
    ):
        load_pairs("snli-dev")
    put(root, "transfer/cr.all.tsv.gz", {"label": ["1", "0"], "sentence": ["good", ""]})
    # An empty sentence is kept in a transfer task.
    assert rows(load_data("cr")) == [("good", 1), ("", 0)]


def test_damaged_or_missing_content_is_an_error_and_not_downloaded(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = gzip.decompress((root / STSB_FILE).read_bytes())
    entry = {"file": STSB_FILE, "sha256_uncompressed": hashlib.sha256(content).hexdigest()}
    (root / "MANIFEST.json").write_text(json.dumps({"files": [entry]}))
    assert check(["stsb-dev"]).loc[0, "status"] == "local"
    put(root, STSB_FILE, {name: values[:2] for name, values in STSB.items()})
    with pytest.raises(DataError, match=r"stsb.dev.tsv.gz: its content has not the sha256"):
        load_pairs("stsb-dev")
    [problem] = unusable(check(["stsb-dev"]))
    assert problem.startswith("stsb-dev: ")
    (root / "MANIFEST.json").write_text("{")
    with pytest.raises(DataError, match="not a manifest"):
        load_pairs("stsb-dev")
    (root / "MANIFEST.json").unlink()
    put(root, "wiki/wiki_sentences.tsv.gz", {"sentence": ["one"]})
    with pytest.raises(DataError, match=r"wiki_sentences_2.tsv.gz cannot be read.*restore it"):
        load_sentences("wiki")
    with pytest.raises(DataError, match="nli-triplets is not local; set WORKBENCH_DATA"):
        load_data("nli-triplets")
    monkeypatch.setenv("WORKBENCH_DATA", str(root / "nowhere"))
    with pytest.raises(DataError, match="nowhere is not a folder"):
        load_pairs("stsb-dev")


def test_a_sample_is_drawn_from_all_files_in_order_with_a_checksum_of_its_own(root: Path) -> None:
    sentences = [f"sentence {i:03d}" for i in range(200)]
    for part, taken in {"": slice(70), "_2": slice(70, 71), "_3": slice(71, 200)}.items():
        put(root, f"wiki/wiki_sentences{part}.tsv.gz", {"sentence": sentences[taken]})
    whole, some = load_sentences("wiki"), load_sentences("wiki", limit=60, seed=3)
    assert whole.sentences == load_sentences("wiki", limit=500).sentences == sentences
    drawn = np.sort(np.random.default_rng(3).choice(200, 60, replace=False))
    assert some.sentences == [sentences[row] for row in drawn]
    assert some.checksum == hashlib.sha256(f"{whole.checksum} 60 3".encode()).hexdigest()
    assert some.source.endswith("60 of 200 rows sampled with seed 3")
    one, two = (load_training(training("wiki", train_limit=9, seed=seed)) for seed in (1, 2))
    assert one == two


def test_suites_come_by_name_and_a_bad_one_stops_all(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert list(load_suites(["world-test", "stsb-dev"])) == ["world-test", "stsb-dev"]
    with pytest.raises(DataError, match="no dataset 'stsb-devv'; did you mean 'stsb-dev'"):
        load_suites(SimpleNamespace(suites=["world-test", "stsb-devv"]))
    (root / "other").mkdir()
    for folder in (root, root / "other"):
        (folder / "mine.csv").write_text(f"{HEADER}a,b,1\nc,d,2\n")
    with pytest.raises(DataError, match="two sets are called mine"):
        load_suites([str(root / "mine.csv"), str(root / "other" / "mine.csv")])
    load_training(training(str(root / "mine.csv"), encoder="world-encoder"))
    assert "world-encoder: of the bundled world, whose words are not those of" in caplog.text
    caplog.clear()
    load_training(training(str(root / "mine.csv"), encoder="english-encoder", dev="world-dev"))
    assert "world-dev: of the bundled world" in caplog.text
    caplog.clear()
    load_training(training(str(root / "mine.csv"), dev="ladders-all", suites=["ladders-all"]))
    assert "bundled world" not in caplog.text


def test_bundled_sets_are_whole_and_never_read_from_elsewhere(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, "world/world.dev.tsv.gz", {"score": ["1"], "sentence1": ["a"], "sentence2": ["b"]})
    pairs = load_pairs("world-dev")
    assert pairs.source.startswith("bundled ")
    assert len(set(pairs.pair_id)) == len(pairs) == 1750
    monkeypatch.setattr("sys.argv", ["manifest.py", "--check"])
    assert runpy.run_path(str(PROJECT / "data/build/manifest.py"))["main"]() == 0
    monkeypatch.delenv("WORKBENCH_DATA")
    table = check().set_index("name")
    assert table.index.tolist() == dataset_names()
    assert table["status"][["world-dev", "sts12-test", "nli-triplets"]].tolist() == [
        "bundled",
        "hub",
        "missing",
    ]
    assert set(table["problem"][table["status"] == "bundled"]) == {""}
    assert table["rows"].fillna(0).tolist() == [
        describe(name)["rows"] or 0 for name in dataset_names()
    ]


# ---- the hub, as local folders and as its cache

COMMIT = "e145e8bb659b2aa2669f32ef79cb4cdef6c58fef"
SENTEVAL = {
    "STS/STS12-en-test/STS.input.MSRpar.txt": "a  cat .\tone cat .\nnever graded\tat "
    "all\nlast\tpair\n",
    "STS/STS12-en-test/STS.gs.MSRpar.txt": "4.5\n\n0\n",
    **{
        f"STS/STS12-en-test/STS.{part}.{subset}.txt": text
        for subset in ("MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews")
        for part, text in (("input", f"x {subset}\ty\n"), ("gs", "1.0\n"))
    },
    "STS/STSBenchmark/sts-dev.csv": 'main-news\theadlines\t2015\t0003\t3.20\ta "quoted '
    "b\tc\tlicence note\n",
    "SICK/SICK_trial.txt": "pair_ID\tsentence_A\tsentence_B\tscore\tjudgment\n4\tA dog\tA "
    "cat\t1.5\tNEUTRAL\n",
    "MR/rt-polarity.pos": "caf\xe9 good\nfine\n",
    "MR/rt-polarity.neg": "bad\n",
    "SST/binary/sentiment-dev": "nice film\t1\ndull film\t0\n",
    "TREC/TREC_10.label": "NUM:dist How far ?\nLOC:city Where ?\n",
    "MRPC/msr_paraphrase_test.txt": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 "
    "String\r\n1\t10\t20\tOne "
    ".\tTwo .\r\n",
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate the hub: OWNER/NAME is a repository, SentEval's archive is cached, no data root."""
    import datasets

    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "hub").mkdir()
    monkeypatch.chdir(tmp_path / "hub")
    snapshot = tmp_path / "cache/datasets--princeton-nlp--datasets-for-simcse/snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    with tarfile.open(snapshot / "senteval.tar", "w") as tar:
        for name, text in SENTEVAL.items():
            # As the real one.
            content = text.encode("latin-1" if name.startswith("MR/") else "utf-8")
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return tmp_path / "hub"


def put_parquet(file: Path, columns: dict[str, list[Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(columns).to_parquet(file)


@pytest.mark.usefixtures("hub")
def test_every_kind_of_file_in_sentevals_archive_is_read() -> None:
    pairs = load_pairs("sts12-test")
    assert pairs.sentence1[:2] == ["a cat .", "last"]  # the pair between was never graded
    assert pairs.gold.tolist() == [4.5, 0.0, 1.0, 1.0, 1.0, 1.0]
    assert pairs.subset == ["MSRpar", "MSRpar", "MSRvid", "SMTeuroparl", "OnWN", "SMTnews"]
    assert pairs.pair_id[:3] == ["MSRpar:0", "MSRpar:2", "MSRvid:0"]
    repo = "princeton-nlp/datasets-for-simcse/senteval.tar"
    assert pairs.source == f"hub {repo} at {COMMIT} (6 rows; published: 3108)"
    dev, trial = load_pairs("stsb-dev"), load_pairs("sick-trial")
    assert (rows(dev)[0], dev.pair_id) == (('a "quoted b', "c", 3.2), ["2015:headlines:0003"])
    assert (rows(trial)[0], trial.extra["entailment"], trial.score_range) == (
        ("A dog", "A cat", 1.5),
        ["NEUTRAL"],
        (1.0, 5.0),
    )
    assert rows(load_data("mr")) == [("café good", 1), ("fine", 1), ("bad", 0)]
    assert rows(load_data("sst2-dev"))[1] == ("dull film", 0)
    assert rows(load_data("trec-test"))[0] == ("How far ?", 5)
    assert rows(load_pairs("mrpc-test"))[0] == ("One .", "Two .", 1.0)
    with pytest.raises(DataError, match=r"stsb-test: cannot read .*STSBenchmark/sts-test.csv"):
        load_pairs("stsb-test")
    with pytest.raises(
        DataError, match=r"^wiki1m.*princeton-nlp/datasets-for-simcse.*WORKBENCH_DATA.*HF_HOME.*$"
    ):
        load_data("wiki1m")


def test_labels_and_columns_of_the_hub_become_ours(hub: Path) -> None:
    snli = {"premise": list("abcd"), "hypothesis": list("efgh"), "label": [0, 1, 2, -1]}
    put_parquet(hub / "stanfordnlp/snli/plain_text/validation-00000-of-00001.parquet", snli)
    card = (
        "configs:\n- config_name: plain_text\n  data_files:\n  - split: validation\n    "
        "path: plain_text/val*\n"
    )
    (hub / "stanfordnlp/snli/README.md").write_text(f"---\n{card}---\n")
    pairs = load_pairs("snli-dev")
    assert pairs.gold.tolist() == [2.0, 1.0, 0.0]
    assert pairs.source.startswith(
        f"hub stanfordnlp/snli at {CATALOGUE['snli-dev'].hub['revision']}"
    )
    # Training files keep empty lines and the word None.
    folder = hub / "princeton-nlp/datasets-for-simcse"
    folder.mkdir(parents=True)
    (folder / "wiki1m_for_simcse.txt").write_text("one\n\nthree\n")
    (folder / "nli_for_simcse.csv").write_text('sent0,sent1,hard_neg\n"a, b",None,NA\n')
    assert load_sentences("wiki1m").sentences == ["one", " ", "three"]
    assert rows(load_data("nli-simcse"))[0] == ("a, b", "None", "NA")
