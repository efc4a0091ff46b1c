"""The problem sets and their grading: what a student and a teacher would notice.

Where a notebook is judged, the first set stands for all: every submission to every set is for `make check-sets`.
"""

import csv
import os
import re
import socket
import time

import nbformat
import numpy as np
import psutil
import pytest
import torch

from book.chapters import ROOT, code_cells
from book.rules import LONGEST_LINE
from book.run import errors, run

if os.name == "nt":
    pytest.skip("grading needs signals and limits that Windows lacks", allow_module_level=True)

from classroom import gates, grade, process
from classroom.check import EVERYTHING, HOSTILE, SOLUTION, amiss, answered, submissions_of
from classroom.course import Course
from classroom.expect import expect
from classroom.gates import Gates
from classroom.judge import GIVEN, OWN, TEST
from classroom.judging import judge, role_of
from classroom.process import Ended, Process
from classroom.rebuild import name_of, rebuilt
from classroom.sets import PUBLIC, find_sets, seed_of_course
from classroom.wire import Wire

SETS = find_sets()
each_set = pytest.mark.parametrize("problems", SETS, ids=lambda problems: problems.name)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """{a set: it as it is handed out}."""
    course = Course(tmp_path_factory.mktemp("course"))
    return {problems: nbformat.read(course.add(problems, PUBLIC), as_version=4) for problems in SETS}


def labels(notebook):
    """What nbgrader knows of each of a set's own cells."""
    return [cell.metadata.nbgrader for cell in notebook.cells if name_of(cell)]


def text(notebook):
    return "\n".join(cell.source for cell in notebook.cells)


# The sets


@each_set
def test_nothing_of_solutions_and_hidden_tests_is_handed_out(problems, released):
    source, given = text(problems.notebook()), text(released[problems])
    regions = r"### BEGIN (SOLUTION|HIDDEN TESTS)\n(.*?)### END \1"
    outside = re.sub(regions, "", source, flags=re.DOTALL)
    hidden = re.findall(regions, source, re.DOTALL)
    assert {kind for kind, _ in hidden} == {"SOLUTION", "HIDDEN TESTS"}
    lines = {line.strip() for _, region in hidden for line in region.splitlines()}
    long = {line for line in lines if len(line) > 40}  # short ones may be alike
    kept = {line for line in long if line in given and line not in outside}
    assert not kept and not any(kind in given for kind, _ in hidden)


@each_set
def test_no_cell_is_handed_out_empty(problems, released):
    assert all(cell.source.strip() for cell in released[problems].cells)


@each_set
def test_no_line_of_code_is_cut_off_in_lab(problems, released):
    lines = [line for cell in code_cells(released[problems].cells) for line in cell.source.splitlines()]
    assert [line for line in lines if len(line) > LONGEST_LINE] == []


@each_set
def test_a_set_has_the_size_and_the_points_that_it_says(problems):
    notebook = problems.notebook()
    said = re.search(r"\*(\w+) problems, (\d+) points, (\d+) to (\d+) minutes", notebook.cells[0].source)
    headings = re.findall(r"(?m)^## \d\. ", text(notebook))
    assert 4 <= len(headings) <= 6 and said[1] == {4: "Four", 5: "Five", 6: "Six"}[len(headings)]
    assert sum(label.get("points", 0) for label in labels(notebook)) == int(said[2])
    assert int(said[3]) >= 30 and int(said[4]) <= 60
    assert "four_gates(" in text(notebook) and "<details>" in text(notebook)


@each_set
def test_its_chapter_says_how_to_get_it(problems):
    [chapter] = (ROOT / "notebooks" / "text").glob(f"{problems.number}_*.py")
    assert f"`make release SET={problems.number}`" in chapter.read_text(encoding="utf-8")


@each_set
def test_each_answer_is_tested_and_each_test_has_points(problems):
    kinds = [
        "answer" if label.solution else "test" if label.grade else "given" for label in labels(problems.notebook())
    ]
    names = [label.grade_id for label in labels(problems.notebook())]
    assert len(set(names)) == len(names)
    told = [kind for kind in kinds if kind != "given"]
    assert all(after == "test" for kind, after in zip(told, [*told[1:], "end"], strict=True) if kind == "answer")
    assert all(label.points > 0 for label in labels(problems.notebook()) if label.grade)


@each_set
def test_a_seed_draws_a_variant_and_the_prose_follows(problems):
    public, one, again = (problems.notebook(seed) for seed in (PUBLIC, "another", "another"))
    assert text(one) == text(again) != text(public)
    assert public.metadata.steptime.variant != one.metadata.steptime.variant
    assert "{{" not in text(one) and "draw." not in text(one)


@each_set
def test_at_least_two_submissions_are_wrong_on_purpose(problems):
    tests = [label.grade_id for label in labels(problems.notebook()) if label.grade]
    wrong = [submission for submission in submissions_of(problems) if submission.loses]
    assert len(wrong) >= 2
    for submission in (*wrong, *submissions_of(problems, HOSTILE)):
        assert submission.loses == EVERYTHING or set(submission.loses) <= set(tests), submission.name
        assert submission.cells.keys() | submission.without <= {label.grade_id for label in labels(problems.notebook())}


def test_the_solution_gets_all_points_and_runs_in_a_students_own_notebook(released):
    problems = SETS[0]
    source, given = problems.notebook(), released[problems]
    cells = [cell for cell in rebuilt(SOLUTION.notebook(source, given), source).cells if cell.cell_type == "code"]
    outcomes = judge([(role_of(cell), cell.source) for cell in cells], user="")
    points = {}
    for cell, (_, error) in zip(cells, outcomes, strict=True):
        if role_of(cell) == TEST:
            most = cell.metadata.nbgrader.points
            points[name_of(cell)] = (0 if error else most, most)
    assert amiss(SOLUTION, points) == ""
    assert errors(run(answered(given, problems.notebook()), ROOT)) == []


def test_a_set_that_is_not_there_is_a_sentence():
    with pytest.raises(ValueError, match=r"There is no set 77: there are 01"):
        find_sets("77")


# The seed


def test_the_seed_comes_from_the_environment_or_a_file_outside(monkeypatch, tmp_path):
    assert seed_of_course() == PUBLIC
    (tmp_path / "seed").write_text("from a file\n")
    monkeypatch.setenv("STEPTIME_SEED_FILE", str(tmp_path / "seed"))
    assert seed_of_course() == "from a file"
    monkeypatch.setenv("STEPTIME_SEED", "named")
    assert seed_of_course() == "named"


@pytest.mark.parametrize(
    ("path", "sentence"),
    [(ROOT / "README.md", "lies in the repository, where it may get public"), ("/no/seed", "cannot be read: No such")],
)
def test_a_seed_file_that_will_not_do_is_a_sentence(path, sentence, monkeypatch):
    monkeypatch.setenv("STEPTIME_SEED_FILE", str(path))
    with pytest.raises(ValueError, match=sentence):
        seed_of_course()


# Between the processes


@pytest.fixture
def wires():
    ours, theirs = map(Wire, socket.socketpair())
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        2**80,
        0.1,
        float("-inf"),
        1 + 2j,
        "µs",
        [1, [2.5, "x"], []],
        (1, (2,)),
        {"a": [1], 2: None, (1, 2): "b"},
        np.float32(0.1),
        np.arange(6, dtype="int16").reshape(2, 3),
        np.arange(12.0).reshape(3, 4).T,
        np.zeros((0, 3)),
        np.array(["a", "bc"]),
        torch.arange(6).reshape(2, 3),
        torch.tensor([0.1, 3.0], dtype=torch.bfloat16),
        torch.tensor(True),
        torch.zeros(0, 2),
    ],
    ids=repr,
)
def test_plain_data_arrive_as_they_went(value, wires):
    wires[0].send(value)
    arrived = wires[1].receive(time.monotonic() + 1)
    assert type(arrived) is type(value)
    if isinstance(value, (np.ndarray, np.generic, torch.Tensor)):
        assert arrived.dtype == value.dtype and arrived.shape == value.shape and (arrived == value).all()
    else:
        assert arrived == value


class Yes(float):
    def __eq__(self, other):
        return True

    __hash__ = None


@pytest.mark.parametrize(
    "value",
    [Yes(), [Yes()], lambda: 1, np.array([Yes()], dtype=object), {1}, iter([])],
    ids=["a number of its own", "a list of such", "a function", "an array of objects", "a set", "an iterator"],
)
def test_no_object_arrives(value, wires):
    with pytest.raises(TypeError, match="cannot be graded: give numbers, texts, arrays or tensors"):
        wires[0].send(value)


@pytest.mark.parametrize(
    "said", [b"\xff" * 64, b"\0\0\0\2\0\0\0\0{}", b"\0\0\0\1\0\0\0\1[" + b"\xff" * 8, b"\0\0\0\1\0\0\0\0["]
)
def test_what_is_no_message_is_a_value_error(said):
    ours, theirs = socket.socketpair()
    theirs.sendall(said)
    with pytest.raises(ValueError, match=r"cannot be read|larger than"):
        Wire(ours).receive(time.monotonic() + 1)
    ours.close()
    theirs.close()


@pytest.fixture(scope="module")
def student():
    """A process that ran a student's cells."""
    with Process() as started:
        assert not started.run("import os, time\nimport numpy as np\nheld = [1, 2.5]").error
        yield started


def calling(student, source, *arguments):
    """What a function `answer`, defined by a cell, gives."""
    assert not student.run(source).error
    return student.function("answer")(*arguments)


def test_a_function_over_there_is_called_and_a_value_is_a_copy(student):
    assert calling(student, "def answer(x, *, by=2): return x * by", np.arange(3)).tolist() == [0, 2, 4]
    assert student.get("held") == [1, 2.5] and student.get("answer")(1, by=5) == 5
    with pytest.raises(NameError, match="'nothing' is not defined"):
        student.get("nothing")


def test_a_function_from_here_is_called_from_there(student):
    seen = []
    assert calling(student, "def answer(read): return [read(3), read(4)]", lambda n: seen.append(n) or 10 * n) == [
        30,
        40,
    ]
    assert seen == [3, 4]


def test_an_error_over_there_is_an_error_here_and_says_where(student):
    with pytest.raises(ZeroDivisionError, match=r"division by zero \(line 2 of answer\)"):
        calling(student, "def answer():\n    return 1 / 0")
    with pytest.raises(RuntimeError, match="SystemExit"):
        calling(student, "def answer(): raise SystemExit")


@pytest.mark.parametrize(
    ("source", "error", "sentence"),
    [
        ("def answer():\n    while True: pass", Ended, "did not answer within 1 s"),
        ("def answer(): time.sleep(60)", Ended, "did not answer within 1 s"),
        ("def answer(): os._exit(0)", Ended, "ended its process"),
        ("def answer(): return bytearray(10 * 10**9)", MemoryError, None),
        (f"def answer(): return open({str(ROOT / 'README.md')!r}).read()", PermissionError, "may not open"),
        ("def answer(): return open(f'/proc/{os.getppid()}/environ').read()", PermissionError, "may not open"),
        ("def answer(): os.symlink('/etc/passwd', '../link')", PermissionError, "may not open"),
        ("def answer(): os.kill(os.getppid(), 9)", PermissionError, "may not use os.kill"),
        ("def answer(): os.system('true')", PermissionError, "may not use os.system"),
        ("import gc\ndef answer(): gc.get_objects()", PermissionError, "may not use gc.get_objects"),
    ],
)
def test_what_an_answer_may_not_do_is_an_error_and_the_next_one_runs(student, source, error, sentence, monkeypatch):
    monkeypatch.setattr(process, "CALL", 1)
    monkeypatch.setattr(process, "BEGINNINGS", 99)
    with pytest.raises(error, match=sentence):
        calling(student, source)
    assert student.get("held") == [1, 2.5]


def test_files_of_its_own_are_its_own(student):
    assert calling(student, "def answer():\n open('kept', 'w').write('x')\n return open('kept').read()") == "x"


def test_a_cell_that_ends_the_process_is_left_out_when_it_is_begun_again():
    with Process() as student:
        student.run("kept = 1")
        assert "ended its process" in student.run("import os; os._exit(0)").error
        student.run("kept += 1")
        assert student.get("kept") == 2


def test_an_account_that_will_not_do_is_a_sentence(tmp_path):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "01_measurement_problems.ipynb").touch()
    sentence = "Only root can let" if os.geteuid() else "There is no account nobody-here"
    assert grade.main([str(tmp_path), "--user", "nobody-here"]).startswith(sentence)


def test_what_a_cell_prints_is_bounded(student):
    printed = student.run("for n in range(200_000): print(n)").printed
    assert printed.startswith("0\n1\n") and len(printed) < 30_000 and printed.endswith("(cut off here)\n")


def test_nothing_of_it_goes_on_while_it_is_not_asked():
    before = psutil.Process().children(recursive=True)
    with Process() as student:
        student.run("import os\nif not os.fork():\n    while True: pass")
        started = [child for child in psutil.Process().children(recursive=True) if child not in before]
        assert len(started) == 2
        worked = [sum(child.cpu_times()[:2]) for child in started]
        time.sleep(0.3)
        assert [sum(child.cpu_times()[:2]) for child in started] == worked
    psutil.wait_procs(started, timeout=5)
    assert not any(child.is_running() for child in started)


# The judge


def test_tests_use_what_the_set_gives_and_take_the_rest_from_the_student():
    cells = [
        (GIVEN, "def double(x):\n    return 2 * x"),
        (OWN, "double = expect = helper = None\ndef answer(x):\n    return x + 1\nguess = 7"),
        (TEST, "helper = 3\nassert double(helper) == 6\nexpect(answer(2), 3)\nexpect(guess, 7)"),
        (TEST, "assert answer(2) == 4, 'not four'"),
        (TEST, "missing()"),
        (TEST, "raise_here = 1 / 0\nlate = True"),
        (OWN, "late = lambda: None"),
        (TEST, "late()"),
    ]
    errors = [error for _, error in judge(cells, user="")]
    assert errors[:4] == [None, None, None, "AssertionError: not four"]
    assert errors[4] == "NameError: name 'missing' is not defined"
    assert errors[7] == "NameError: name 'late' is not defined"  # the set's own name, never the student's


def test_a_given_cell_that_fails_is_the_fault_of_the_set():
    sentence = (
        "the judge ended with 1, RuntimeError: a cell that the set gives raises NameError: name 'x' is not defined"
    )
    assert judge([(GIVEN, "x"), (TEST, "pass")], user="") == [["", sentence]] * 2


@pytest.mark.parametrize(
    ("answer", "right", "sentence"),
    [
        ([1.0], np.ones(1), "a list of 1 (a number), not an array of float64 with shape (1,)"),
        (np.ones(2), np.ones(3), "shape (2,), not an array of float64 with shape (3,)"),
        (np.ones(2, "float32"), np.ones(2), "an array of float32"),
        (torch.ones(2), np.ones(2), "a tensor of float32"),
        (True, 1, "True or False, not a number"),
        ({"a": 1}, {"b": 1}, "a dict with 'a': a number"),
        (1.1, 1.0, "another one: 0.1 apart, 0.01 allowed"),
        (None, [], "None, not a list of 0"),
    ],
)
def test_an_answer_of_another_kind_is_a_sentence(answer, right, sentence):
    with pytest.raises(AssertionError, match=re.escape(sentence)):
        expect(answer, right, 0.01)


def test_right_answers_are_expected():
    for value in (None, True, 3, "a", [1, "a", None], {"a": (1, 2.0)}, np.ones(3), torch.ones(2)):
        expect(value, value)
    expect(np.float64(1.004), 1, 0.01)


# The gates


def slow(numbers):
    return np.array([number * 2 for number in numbers])


def fast(numbers):
    return numbers * 2


def draw(random):
    return (random.normal(size=int(random.integers(4_000, 4_100))),)


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(gates, "BUDGET", 0.5)
    monkeypatch.setattr(gates, "LARGER", 0.7)


def passed(answer, target):
    """How many of the four gates an answer passes, and the sentence at the one that stops it."""
    four = Gates(answer, slow, draw, 1e-12, target)
    for number, gate in enumerate((four.right, four.done, four.faster, four.reaches_target)):
        try:
            gate()
        except AssertionError as problem:
            return number, str(problem)
    return 4, ""


def test_a_fast_answer_passes_four_gates(short):
    assert passed(fast, 10) == (4, "")


def test_a_target_out_of_reach_stops_it_at_the_last(short):
    number, sentence = passed(fast, 1e6)
    assert number == 3 and sentence.startswith("not 1e+06 times faster: ")


def test_a_slow_answer_stops_at_the_third(short):
    assert passed(lambda numbers: slow(numbers[::-1])[::-1], 10)[0] == 2


def test_an_answer_kept_from_an_earlier_call_stops_at_the_second(short):
    kept = {}
    number, sentence = passed(lambda numbers: kept.setdefault((numbers.shape, numbers[0]), fast(numbers)), 10)
    assert number == 1 and "the answer is another one" in sentence


def test_a_wrong_answer_stops_at_the_first(short):
    assert passed(lambda numbers: numbers + numbers.mean(), 10)[0] == 0


def test_where_nobody_can_tell_there_is_the_benefit_of_the_doubt(short, capsys):
    four = Gates(slow, slow, draw, 1e-12, target=1.0)
    four.right()
    four.done()
    four.reaches_target()
    assert "you get the benefit of the doubt" in capsys.readouterr().out


# Submissions


def test_of_a_submission_only_answers_and_cells_of_its_own_count(released):
    master = released[SETS[0]]
    frame = [name_of(cell) for cell in master.cells if name_of(cell)]
    handed_in = nbformat.from_dict(master)
    answer = next(cell for cell in handed_in.cells if name_of(cell) and cell.metadata.nbgrader.solution)
    answer.source = "mine = 1"
    answer.metadata.nbgrader |= {"solution": False, "grade": True, "points": 99}
    for cell in handed_in.cells:
        if name_of(cell) and cell.metadata.nbgrader.grade and cell is not answer:
            cell.source, cell.cell_type = "pass", "raw"
    handed_in.cells = [*handed_in.cells[:-3], nbformat.v4.new_code_cell("helper = 1")]
    whole = rebuilt(handed_in, nbformat.from_dict(master))
    assert [name_of(cell) for cell in whole.cells if name_of(cell)] == frame
    given = {name_of(cell): cell for cell in master.cells}
    for cell in whole.cells:
        if name := name_of(cell):
            wanted = "mine = 1" if name == name_of(answer) else given[name].source
            assert cell.source == wanted and cell.metadata == given[name].metadata
    assert "helper = 1" in [cell.source for cell in whole.cells]


@pytest.mark.parametrize(
    ("folders", "sentence"),
    [
        (["ada"], "No student's folder in .* holds a notebook 01_measurement_problems.ipynb"),
        (
            ["ada/01_measurement_problems.ipynb", "ada/old/01_measurement_problems.ipynb"],
            "ada has 2 notebooks 01_measurement_problems.ipynb",
        ),
        (["Lovelace, Ada/01_measurement_problems.ipynb"], "has a comma in its name"),
    ],
)
def test_a_folder_that_cannot_be_graded_is_a_sentence(folders, sentence, tmp_path):
    for name in folders:
        path = tmp_path / name
        (path.parent if path.suffix else path).mkdir(parents=True, exist_ok=True)
        if path.suffix:
            path.write_text("{}")
    with pytest.raises(ValueError, match=sentence):
        grade.find_submissions(tmp_path)
    with pytest.raises(ValueError, match="There is no folder"):
        grade.find_submissions(tmp_path / "none")


def test_grades_and_feedback_are_written_whatever_was_handed_in(tmp_path, capsys):
    handed_in = tmp_path / "submissions" / "ada"
    handed_in.mkdir(parents=True)
    (handed_in / "01_measurement_problems.ipynb").write_bytes(b"\xff{")
    assert grade.main([str(tmp_path / "submissions"), "--to", str(tmp_path / "grades")]) == 0
    assert "0 of 30 points" in capsys.readouterr().out
    with open(tmp_path / "grades" / "grades.csv", newline="") as table:
        [row] = csv.DictReader(table)
    assert (row["student_id"], row["score"], row["max_score"]) == ("ada", "0.0", "30.0")
    feedback = (tmp_path / "grades" / "feedback" / "ada" / "01_measurement_problems.html").read_text(encoding="utf-8")
    assert "This file is no notebook that can be read" in feedback
