"""Files as people have them: each is read as they would expect, or refused in one clear line.

Every file is a table of two numbers, width and height, of twelve rows, in some form or other.
"""

import bz2
import gzip
import inspect
import io
import json
import lzma
import os
import subprocess
import sys
import zipfile
from importlib import import_module

import numpy as np
import openpyxl
import pandas as pd
import pytest
from typer.testing import CliRunner

import momentmix
from momentmix import MomentTensors
from momentmix.cli import COMMANDS, app
from momentmix.files.opening import open_table

X = np.round(np.random.default_rng(0).normal([5, 200], [1, 30], size=(12, 2)), 3)
NAMES = ["width", "height"]
FRAME = pd.DataFrame(X, columns=NAMES)
WORDS = ["red", "green", "blue"] * 4
DATES = [f"2024-03-{day:02d}" for day in range(1, 13)]


def text(frame=FRAME, index=False, **options):
    return frame.to_csv(index=index, **options).encode()


def framed(**more):
    """The table with more columns before the two."""
    return pd.concat([pd.DataFrame(more), FRAME], axis=1)


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def workbook(*sheets):
    book, file = openpyxl.Workbook(), io.BytesIO()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(file)
    return file.getvalue()


def saved(method, **options):
    file = io.BytesIO()
    getattr(FRAME, method)(file, **options)
    return file.getvalue()


def savetxt():
    file = io.BytesIO()
    np.savetxt(file, X, header=" ".join(NAMES))
    return file.getvalue()


def array(X):
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


LINES = [",".join(map(str, row)) for row in X]
COMMENTED = "\n".join(["# measured in spring", "width,height", *LINES[:6], "# tea", *LINES[6:]])
ROWS = [tuple(map(float, row)) for row in X]

#: Name of the file, its bytes, what the command says about it, options.
GOOD = [
    ("commas.csv", text(), "", ()),
    ("semicolons.csv", text(sep=";"), "", ()),
    ("decimal_commas.csv", text(sep=";", decimal=","), "", ()),
    ("tabs_and_decimal_commas.csv", text(sep="\t", decimal=","), "", ()),
    ("tabs.tsv", text(sep="\t"), "", ()),
    ("bars.txt", text(sep="|"), "", ()),
    ("blanks.dat", FRAME.to_string(index=False).encode(), "", ()),
    ("iris.data", text(), "", ()),
    ("no_ending", text(), "", ()),
    ("blanks_after_commas.csv", text().replace(b",", b", "), "", ()),
    ("quotes.csv", text(quoting=1), "", ()),
    ("windows.csv", text(lineterminator="\r\n"), "", ()),
    ("old_mac.csv", text(lineterminator="\r"), "", ()),
    ("no_last_line_end.csv", text().rstrip(b"\n"), "", ()),
    ("empty_lines.csv", text().replace(b"\n", b"\n\n") + b"\n\n", "", ()),
    ("bom.csv", b"\xef\xbb\xbf" + text(), "", ()),
    ("utf16.csv", text().decode().encode("utf-16"), "", ()),
    ("utf16_without_mark.csv", text().decode().encode("utf-16-le"), "", ()),
    ("latin1.csv", text(framed(café=WORDS)).decode().encode("latin-1"), "left out café", ()),
    ("utf32.csv", text().decode().encode("utf-32"), "", ("--encoding", "utf-32")),
    ("comments.csv", COMMENTED.encode(), "", ()),
    ("savetxt.txt", savetxt(), "", ()),
    ("title.csv", b"Measured in spring\n\n" + text(framed(colour=WORDS)), "were skipped", ()),
    ("packed.csv.gz", gzip.compress(text()), "", ()),
    ("packed.csv.bz2", bz2.compress(text()), "", ()),
    ("packed.csv.xz", lzma.compress(text()), "", ()),
    ("packed.zip", zipped({"t.csv": text(), "__MACOSX/t.csv": b"\x00\x05"}), "", ()),
    ("packed_utf16.csv.gz", gzip.compress(text(sep=";").decode().encode("utf-16")), "", ()),
    ("misnamed.csv", gzip.compress(text()), "", ()),
    ("book.xlsx", workbook(("Sheet1", [NAMES, *ROWS])), "", ()),
    ("misnamed_book.csv", workbook(("Sheet1", [NAMES, *ROWS])), "", ()),
    ("books.xlsx", workbook(("empty", []), ("data", [NAMES, *ROWS])), "the sheet data of 2", ()),
    ("chosen.xlsx", workbook(("a", [["x"], [1]]), ("b", [NAMES, *ROWS])), "", ("--sheet", "b")),
    ("table.parquet", saved("to_parquet"), "", ()),
    ("table.feather", saved("to_feather"), "", ()),
    ("misnamed_parquet.csv", saved("to_parquet"), "", ()),
    ("titled.csv", b"Widths, measured 2024\n" + text(framed(colour=WORDS)), "were skipped", ()),
    ("titled.xlsx", workbook(("a", [["Widths", None, None], [], ["colour", *NAMES],
                                    *framed(c=WORDS).values.tolist()])), "were skipped", ()),
    ("money.csv", FRAME.assign(height=[f"${y:,.3f}" for y in 1000 * X[:, 1]]).to_csv(index=False)
     .encode(), "and numbers like it are read as 196037", ()),
    ("thousands.csv", b"width,height\n" + "".join(
        f'{1000 * x:.0f},"{1000 * y:,.0f}"\n' for x, y in X).encode(), "'196,037' and numbers", ()),
    ("two.txt", b"Measured in spring\n" + text(), "were skipped", ()),
    ("inch.csv", text(framed(name=['5" pipe', "red"] * 6)).replace(b'"5"" pipe"', b'5" pipe'),
     "left out name (words)", ()),
    ("inch_money.csv", text(framed(name=['5" pipe', "red"] * 6, cost=["$5"] * 12))
     .replace(b'"5"" pipe"', b'5" pipe'), "cost (constant)", ()),
    ("lines.csv", text(framed(name=["see\n# 2", "red"] * 6)), "left out name (words)", ()),
    ("colours.csv", text(framed(c=["#ff0000", "blue"] * 6)), "left out c (words)", ()),
    ("decades.csv", text(framed(name=WORDS)).replace(b"name,width,height", b"country,1990,2000"),
     "--header no makes it a row", ()),
    ("userid.csv", text(framed(userid=np.arange(12) ** 2 + 7)), "userid (identifiers)", ()),
    ("german.csv", FRAME.assign(height=[f"{1000 * y:,.0f}".replace(",", ".") for y in X[:, 1]])
     .to_csv(index=False, sep=";", decimal=",").encode(), "are read as 196037", ()),
    ("quoted_commas.csv", text(sep=";", decimal=",").replace(b";", b'","').replace(b"\n", b'"\n"')
     .removesuffix(b'"').replace(b"wid", b'"wid'), "", ()),
    ("percent.csv", FRAME.assign(height=[f"{y} %" for y in X[:, 1]]).to_csv(index=False).encode(),
     "and numbers like it are read as", ()),
    ("codes.csv", text(framed(postcode=[f"0{i}123" for i in WORDS])).replace(b"red", b"7")
     .replace(b"green", b"8").replace(b"blue", b"9"), "left out postcode (codes)", ()),
    ("numbers.csv", text(framed(**{"Customer No": np.arange(12) ** 2 + 7})), "(identifiers)", ()),
    ("words.csv", text(framed(colour=WORDS)), "left out colour (words)", ()),
    ("dates.csv", text(framed(day=DATES)), "left out day (dates)", ()),
    ("year.csv", text(framed(year=[2007, 2008, 2009] * 4)), "left out year (years)", ()),
    ("truths.csv", text(framed(ok=[True, False] * 6)), "left out ok (true or false)", ()),
    ("pandas_index.csv", text(index=True), "left out unnamed_0 (no name)", ()),
    ("r_write_table.txt", text(index=True, sep=" ").replace(b" width", b"width", 1), "no name", ()),
    ("rownames.csv", text(framed(rownames=range(1, 13))), "rownames (running numbers)", ()),
    ("id.csv", text(framed(customerId=np.arange(12) ** 2 + 7)), "customerId (identifiers)", ()),
    ("constant.csv", text(framed(batch=[7.5] * 12)), "left out batch (constant)", ()),
    ("trailing_comma.csv", text().replace(b"\n", b",\n"), "left out unnamed_2 (empty)", ()),
    ("trailing_below.csv", text().replace(b"\n", b",\n").replace(b"ht,", b"ht"), "(empty)", ()),
    ("empty_column.csv", text(framed(notes=[np.nan] * 12)), "left out notes (empty)", ()),
    ("bare.csv", text(header=False), "", ()),
    ("same_names.csv", text().replace(b"width,height", b"width,width"), "", ()),
    ("years.csv", text().replace(b"width,height", b"2018,2019"), "--header no makes it a row", ()),
    ("header_said.csv", text().replace(b"width,height", b"7,9"), "", ("--header", "yes")),
    ("excluded.csv", text(framed(weight=np.arange(12) % 5)), "", ("--exclude", "wei*")),
    ("globs.csv", text(framed(weight=np.arange(12) % 5)), "", ("--columns", "*h,height")),
    ("positions.csv", text(framed(weight=np.arange(12) % 5)), "", ("--columns", "1,2")),
    ("colons.csv", text(sep=":"), "", ("--sep", ":")),
    ("plain.npy", array(X), "", ()),
]  # fmt: skip
RENAMED = {"bare.csv": None, "plain.npy": None, "same_names.csv": ["width", "width.1"],
           "years.csv": ["2018", "2019"],
           "decades.csv": ["1990", "2000"], "header_said.csv": ["7", "9"]}  # fmt: skip


@pytest.fixture
def fit(tmp_path, monkeypatch):
    """The command on a file; its status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(name, data, *options):
        (tmp_path / name).write_bytes(data)
        done = CliRunner().invoke(app, ["fit", name, "-k", "1", "--json", *options])
        return done.exit_code, done.stdout, done.stderr

    return run


def facts_of(answer):
    code, out, err = answer
    assert code == 0, err
    facts = json.loads(out)
    return facts["mixture"]["feature_names"], np.array(facts["mixture"]["means"][0]), facts["rows"]


@pytest.mark.parametrize(("name", "data", "said", "options"), GOOD, ids=[row[0] for row in GOOD])
def test_read_as_expected(name, data, said, options, fit):
    answer = fit(name, data, *options)
    names, mean, rows = facts_of(answer)
    assert names == (RENAMED.get(name, NAMES) or ["x0", "x1"])
    mean[1] /= 1000 if name in ("money.csv", "german.csv", "thousands.csv") else 1
    mean[0] /= 1000 if name == "thousands.csv" else 1
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-12)
    assert rows == 12
    notes = [line for line in answer[2].splitlines() if "Component 0" not in line]
    assert bool(notes) == bool(said), notes
    assert said in answer[2]


GAPS = ["", "NA", "N/A", "NaN", "null", "None", "?", "-", ".", " NA", "  n/a "]


@pytest.mark.parametrize("gap", GAPS)
def test_gaps(gap, fit):
    """Rows with gaps are counted, and used or left out."""
    lines = ["width,height", *LINES]
    lines[3], lines[9] = f"{gap},{X[2, 1]}", f"{X[8, 0]},{gap}"
    answer = fit("gaps.csv", "\n".join(lines).encode())
    assert "Note: 2 cells of 24, in 2 of 12 rows, are gaps; the other values" in answer[2]
    assert facts_of(answer)[2] == 12
    answer = fit("gaps.csv", "\n".join(lines).encode(), "--missing", "drop")
    names, mean, rows = facts_of(answer)
    assert "Note: 2 of 12 rows have gaps and were left out." in answer[2]
    assert (names, rows) == (NAMES, 10)
    np.testing.assert_allclose(mean, np.delete(X, [2, 8], axis=0).mean(axis=0), rtol=1e-12)
    code, _, err = fit("gaps.csv", "\n".join(lines).encode(), "--missing", "error")
    assert code == 1
    assert "gaps.csv, row 2 (about line 4), column width: no value (--missing keep uses" in err


def test_rows_that_begin_with_a_gap_of_excel(fit):
    """#N/A is a gap, and no comment."""
    lines = ["width,height", *LINES]
    lines[3] = f"#N/A,{X[2, 1]}"
    answer = fit("excel.csv", "\n".join(lines).encode())
    assert json.loads(answer[1])["gaps"] == {"width": 1}
    assert "1 cell of 24, in 1 of 12 rows, is a gap" in answer[2]


def test_gaps_that_the_user_names(fit):
    lines = ["width,height", *LINES]
    lines[3], lines[9] = f"unknown,{X[2, 1]}", f"{X[8, 0]},-999.0"
    answer = fit("na.csv", "\n".join(lines).encode(), "--na", "unknown,-999")
    assert json.loads(answer[1])["gaps"] == {"width": 1, "height": 1}
    code, _, err = fit("na.csv", "\n".join(lines).encode(), "--columns", "width,height")
    assert code == 1
    assert "na.csv, row 2 (line 4), column width: 'unknown' is not a number" in err


def engines(words):
    """93 rows, some of which have a word among the numbers of cylinders."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(93, 2)), columns=NAMES)
    frame.insert(0, "cylinders", [words.get(i, str(3 + i % 4)) for i in range(93)])
    return text(frame)


@pytest.mark.filterwarnings("always:.*is not a number; words")
def test_very_few_words_among_numbers_are_gaps(fit):
    answer = fit("one.csv", engines({56: "rotary"}))
    assert facts_of(answer)[0] == ["cylinders", *NAMES]
    assert json.loads(answer[1])["gaps"] == {"cylinders": 1}
    assert "row 56 (line 58), column cylinders: 'rotary' is not a number; words" in answer[2]


def test_a_column_of_numbers_with_several_words_is_left_out(fit):
    answer = fit("more.csv", engines(dict.fromkeys((4, 30, 50), "3+")))
    assert facts_of(answer)[0] == NAMES
    assert "left out cylinders (numbers and words); --na takes words for gaps" in answer[2]
    kept = fit("more.csv", engines(dict.fromkeys((4, 30, 50), "3+")), "--na", "3+")
    assert facts_of(kept)[0][0] == "cylinders"


@pytest.mark.filterwarnings("always:.*is not a number; words")
def test_late_words_are_counted_over_the_rows_so_far(fit):
    """The head of the table has none, and the rows after it have a few or too many."""
    late = {2000: "136A", 2500: "136B"}
    lines = ["family,x", *(f"{late.get(i, i % 7)},{i % 11}" for i in range(3000))]
    assert json.loads(fit("late.csv", "\n".join(lines).encode())[1])["gaps"] == {"family": 2}
    lines[1500:2000] = [f"12{'ABC'[i % 3]},2" for i in range(500)]
    code, _, err = fit("late.csv", "\n".join(lines).encode())
    assert code == 1
    assert "row 1499 (line 1501), column family: '12A' is not a number (--na '12A'" in err


def test_labels_are_known_by_their_names(fit):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"year": rng.integers(70, 83, 200), "county": rng.integers(1, 99, 200)})
    frame = frame.assign(size=rng.integers(1, 99, 200), region=rng.normal(size=200))
    said = " ".join(json.loads(fit("labels.csv", text(frame))[1])["remarks"])
    assert "labels, codes or years: year (70 to 82), county (1 to 97). If these are labels" in said


def test_columns_that_were_left_out_can_be_kept(fit):
    data = text(framed(id=range(1, 13), batch=[7.5] * 12))
    assert facts_of(fit("kept.csv", data))[0] == NAMES
    assert facts_of(fit("kept.csv", data, "--all-columns"))[0] == ["id", "batch", *NAMES]
    assert facts_of(fit("kept.csv", data, "--columns", "id,width"))[0] == ["id", "width"]


def test_a_table_of_nothing_else_keeps_them(fit):
    data = pd.DataFrame({"id": range(1, 13), "n": range(7, 19)}).to_csv(index=False).encode()
    assert facts_of(fit("ids.csv", data))[0] == ["id", "n"]


def test_a_first_line_that_is_not_finite(fit):
    """It is a row, and is refused as one."""
    code, _, err = fit("inf.csv", b"inf,1,2\n" + b"".join(b"%d.5,2,3\n" % i for i in range(6)))
    assert code == 1
    assert "inf.csv, row 0 (about line 1), column 0: inf (leave the row out, or mend it)" in err


def test_one_column_with_decimal_commas(fit):
    names, mean, _ = facts_of(fit("one.csv", b"width\n1,5\n2,5\n"))
    assert (names, list(mean)) == (["width"], [2.0])


def test_a_first_row_that_looks_like_years(fit):
    """Rows of years below it count up as well: no header."""
    data = "".join(f"{year},{year + 1}\n" for year in (1990, 2003, 1950, 2014)).encode()
    names, mean, rows = facts_of(fit("spans.csv", data))
    assert (names, rows, mean[0]) == (["x0", "x1"], 4, (1990 + 2003 + 1950 + 2014) / 4)
    assert facts_of(fit("y.csv", text().replace(b"width,height", b"2018,2019"),
                        "--header", "no"))[2] == 13  # fmt: skip


BAD = [
    ("empty.csv", b"", "the file is empty", ()),
    ("blank.csv", b"\n\n  \n", "the file is empty", ()),
    ("only_comments.csv", b"# a\n# b\n", "the file holds only comments", ()),
    ("only_names.csv", b"width,height\n", "no rows", ()),
    ("only_words.csv", b"a,b\nx,y\nz,u\n", "no column of numbers is left; it has a (words)", ()),
    ("one_row.csv", b"a,b\n1,2\n", "a mixture needs two rows at least, and there is one", ()),
    ("ragged.csv", b"a,b\n1,2\n3\n5,6\n", "row 1 (line 3): 1 cells where 2 belong", ()),
    ("odd_word.csv", text().replace(str(X[3, 0]).encode(), b"oops"),
     "row 3 (line 5), column width: 'oops' is not a number",
     ("--columns", "width,height")),
    ("units.csv", b"time,mass\ns,kg\n" + b"1.5,2\n2.5,4\n" * 9, "column time: 's' is not a number "
     "(--na 's' takes it for a gap, --exclude leaves the column out)", ()),
    ("model.json", b'{"format": "momentmix-mixture"}', "a model and no table; momentmix show", ()),
    ("page.html", b"<!doctype html><p>1,2</p>", "no table but JSON, HTML or XML", ()),
    ("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" * 9, "an old Excel workbook (.xls); save", ()),
    ("paper.pdf", b"%PDF-1.7 ...", "this is a PDF document", ()),
    ("noise.bin", bytes(range(256)) * 9, "neither text nor a table of a known kind", ()),
    ("two.zip", zipped({"a.csv": text(), "b.csv": text()}), "holds 2 files (a.csv, b.csv)", ()),
    ("none.zip", zipped({}), "this zip file holds no file", ()),
    ("cut.csv.gz", gzip.compress(text())[:-20], "cut.csv.gz: the file is damaged", ()),
    ("twice.csv.gz", gzip.compress(gzip.compress(text())), "packed twice; unpack it first", ()),
    ("binary.parquet.gz", gzip.compress(saved("to_parquet")), "binary table inside of a", ()),
    ("damaged.xlsx", workbook(("a", [NAMES]))[:-300], "damaged.xlsx: this zip file is damaged", ()),
    ("sheets.xlsx", workbook(("a", [NAMES, *ROWS])), "no sheet 'b'; it has a", ("--sheet", "b")),
    ("blank.xlsx", workbook(("a", [])), "the workbook is empty", ()),
    ("damaged.parquet", saved("to_parquet")[:300], "damaged.parquet cannot be read", ()),
    ("latin1.csv", text(framed(café=WORDS)).decode().encode("latin-1"),
     "this is not text in ascii", ("--encoding", "ascii")),
    ("x.csv", text(), "there is no encoding 'klingon' of text", ("--encoding", "klingon")),
    ("x.csv", text(), "a separator is one character, got 'ab'", ("--sep", "ab")),
    ("x.csv", text(), "the decimal mark is '.' or ',', got '!'", ("--decimal", "!")),
    ("x.csv", text(), "--header is yes or no, got 'maybe'", ("--header", "maybe")),
    ("x.csv", text(), "--missing is keep, drop or error, got 'guess'", ("--missing", "guess")),
    ("x.csv", text(), "no column depth for --columns; it has width", ("--columns", "depth")),
    ("x.csv", text(), "no column d* for --exclude", ("--exclude", "d*")),
    ("x.csv", text(), "no column 2 for --columns", ("--columns", "2")),
    ("x.csv", text(), "no column of numbers is left; it has width (excluded)", ("--exclude", "*")),
    ("no_rows_left.csv", b"a,b\n1,\n,2\n3,\n", "every row has a gap, 2 of 3 in column b;",
     ("--missing", "drop")),
    ("x.csv", text(), "--covariance is auto or one of full", ("--covariance", "round")),
    ("x.csv", text(), "--order must be an int in", ("--method", "moments", "--order", "-3")),
    ("x.csv", text(), "--max-iter must be an int in the range [0, inf)", ("--max-iter", "-1")),
    ("x.csv", text(), "--prior must be", ("--prior", "-1")),
    ("x.csv", text(), "-k 40 asks for more components than x.csv has rows (12)", ("-k", "40")),
    ("x.csv", text(), "-k must be an int in the range [1, inf) or", ("-k", "0")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "message", "options"), BAD,
                         ids=[f"{row[0]} {' '.join(row[3])}".strip() for row in BAD])  # fmt: skip
def test_refused_in_one_line(name, data, message, options, fit):
    code, out, err = fit(name, data, *options)
    assert code == 1, (out, err)
    assert message in err
    assert len(err.splitlines()) == 1, err
    assert err.startswith("momentmix: ")
    assert out == ""


def test_folders_without_tables_are_refused(fit, tmp_path):
    (tmp_path / "tables").mkdir()
    done = CliRunner().invoke(app, ["fit", "tables", "-k", "1"])
    assert "tables is a folder without tables; those end with .parquet" in done.stderr


def test_rows_without_a_value_get_no_component(fit, tmp_path):
    """Labels stay in line with the rows, in every format."""
    run = CliRunner()
    (tmp_path / "t.csv").write_bytes(text())
    assert run.invoke(app, ["fit", "t.csv", "-k", "1", "-o", "m.json"]).exit_code == 0
    lines = ["height;width", *(f"{y};{x}" for x, y in X[:3])]
    lines[2] = "?;NA"
    (tmp_path / "new.txt").write_text("\n".join(lines))
    done = run.invoke(app, ["predict", "m.json", "new.txt"])
    assert done.stdout == "component,probability\n0,1.0\n,\n0,1.0\n"
    assert done.stderr == "Note: 1 of 3 rows have no value and get no component.\n"
    for name in ("l.npy", "l.parquet", "l.arrow", "l.csv"):
        run.invoke(app, ["predict", "m.json", "new.txt", "-o", name])
    np.testing.assert_array_equal(np.load("l.npy"), [[0, 1], [np.nan, np.nan], [0, 1]])
    assert pd.read_parquet("l.parquet")["component"].isna().tolist() == [False, True, False]
    assert pd.read_feather("l.arrow").isna().sum().tolist() == [1, 1]
    done = run.invoke(app, ["predict", "m.json", "new.txt", "--json"])
    assert json.loads(done.stdout)["component"] == [0, None, 0]
    done = run.invoke(app, ["score", "m.json", "new.txt", "--json", "-o", "s.csv"])
    assert json.loads(done.stdout)["rows"] == 2
    assert pd.read_csv("s.csv", skip_blank_lines=False)["log_density"].isna().tolist() == [
        False, True, False]  # fmt: skip
    (tmp_path / "bare.txt").write_text("\n".join(f"{x} {y}" for x, y in X))
    done = run.invoke(app, ["predict", "m.json", "bare.txt"])
    assert "bare.txt has no names; its columns are taken for width, height." in done.stderr
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    done = run.invoke(app, ["predict", "m.json", "other.csv"])
    assert "no column width, height for the model; it has a, b" in done.stderr


def test_moments_of_several_files_with_gaps(fit, tmp_path):
    """The same choices as for a fit: by name, whatever the order, without rows that have gaps."""
    half = FRAME.copy()
    half.loc[7, "width"] = np.nan
    half.insert(0, "id", range(1, 13))
    half[:6].to_csv("a.csv.gz", index=False)
    half[6:][["height", "id", "width"]].to_csv("b.csv", index=False, sep=";", encoding="utf-16")
    files = ["a.csv.gz", "b.csv"]
    done = CliRunner().invoke(app, ["moments", *files, "-o", "m.npz", "--order", "2"])
    assert "1 of 12 rows have gaps and were left out" in done.stderr
    assert done.stdout == "m.npz: 11 rows, 2 columns, orders up to 2\n"
    assert "left out id (identifiers); --all-columns keeps all numbers." in done.stderr
    found = MomentTensors.load("m.npz")
    assert found.feature_names == ("width", "height")
    np.testing.assert_allclose(found.tensor(1), np.delete(X, 7, axis=0).mean(axis=0))


@pytest.mark.parametrize("name", ["packed.csv.gz", "old_mac.csv", "utf16.csv", "bars.txt"])
def test_a_pass_over_such_files_goes_on_where_it_was(name, tmp_path, monkeypatch):
    from momentmix.files import text_table

    monkeypatch.setattr(text_table, "_BLOCK", 40)
    path = tmp_path / name
    path.write_bytes(next(data for known, data, *_ in GOOD if known == name))
    pieces = list(open_table(path).pieces())
    assert len(pieces) > 3
    for piece in pieces:
        rest = [X[:0], *(later.rows for later in open_table(path).pieces(piece.next))]
        np.testing.assert_array_equal(np.concatenate(rest), X[piece.next.rows :])


def test_columns_that_look_like_labels_are_told(fit):
    frame = pd.DataFrame({"group": np.arange(60) % 3, "x": np.linspace(0, 1, 60) ** 2})
    _, out, _ = fit("labels.csv", frame.to_csv(index=False).encode())
    remark = json.loads(out)["remarks"][0]
    assert remark.startswith("Some columns have few different values: group (3).")
    assert "--exclude group" in remark
    assert "few different" not in fit("x.csv", frame[["x"]].to_csv(index=False).encode())[1]


def test_help_version_and_completion():
    run, environment = CliRunner(), {"COMP_WORDS": "momentmix fit --comp", "COMP_CWORD": "2"}
    assert run.invoke(app, ["-h"]).stdout == run.invoke(app, ["--help"]).stdout
    assert "--columns" in run.invoke(app, ["fit", "-h"]).stdout
    command = [sys.executable, "-m", "momentmix", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"momentmix {momentmix.__version__}\n"
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    shell = ["bash", "-c", "momentmix --show-completion; true"]  # which asks for its shell
    done = subprocess.run(
        shell, capture_output=True, text=True, env=os.environ | {"PATH": path}, check=True
    )
    assert "_momentmix_completion" in done.stdout
    asked = os.environ | environment | {"_MOMENTMIX_COMPLETE": "complete_bash", "PATH": path}
    done = subprocess.run(["momentmix"], capture_output=True, text=True, env=asked)
    assert done.stdout.split() == ["--components"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_they_say_of_themselves(name):
    module = import_module(f"momentmix.cli.{COMMANDS[name][0]}")
    assert inspect.getdoc(getattr(module, name)).splitlines()[0] == COMMANDS[name][1]
