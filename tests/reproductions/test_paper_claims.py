"""The papers' claims: judged by numbers, in the right direction, and not before they were run."""

from __future__ import annotations

from pathlib import Path

import pytest

from autapse.checks import InputError
from autapse.reproduce import all_recipes
from autapse.reproduce.claims import Claim, Evidence, Judgement
from autapse.reproduce.curve import Curve
from autapse.reproduce.paper import read_papers
from autapse.reproduce.result import Result
from small_results import by_recipe, result

ROOT = Path(__file__).parents[2] / "reproductions"
RECIPES = {recipe.id: recipe for recipe in all_recipes(ROOT)}
ERNN, GRU, RNN = (f"table3/har-2/{name}" for name in ("ernn", "gru", "rnn"))
INN, LSTM = "table1/inn-error/b-0.5", "table1/b-lstm-error/b-0.5"


def judged(claim: Claim, *results: Result, paper: str = "ernn") -> Judgement:
    return Evidence(paper, RECIPES, by_recipe(*results), Path("paper.toml")).judge(claim)


def outcome(line: str, *results: Result, paper: str = "ernn", tolerance: float = 0.0, measure: str = "score") -> str:
    return judged(Claim(text="", compare=(line,), tolerance=tolerance, measure=measure), *results, paper=paper).outcome


def har(name: str, ours: float, **changes: object) -> Result:
    return result(f"ernn/{name}", ours, **changes)


def test_more_accuracy_is_better() -> None:
    assert outcome(f"{ERNN} beats {RNN}", har(ERNN, 95), har(RNN, 91)) == "held"
    assert outcome(f"{ERNN} beats {RNN}", har(ERNN, 91), har(RNN, 95)) == "did not hold"
    assert outcome(f"{ERNN} beats {RNN}", har(ERNN, 95), har(RNN, 95)) == "did not hold"


def test_less_error_is_better() -> None:
    better, worse = result(f"inn/{INN}", 0.11), result(f"inn/{LSTM}", 0.13)
    assert outcome(f"{INN} beats {LSTM}", better, worse, paper="inn") == "held"
    assert outcome(f"{LSTM} beats {INN}", better, worse, paper="inn") == "did not hold"


def test_less_time_and_less_loss_are_better() -> None:
    quick = har(ERNN, 90, best_seconds=10.0, curve=Curve((1.0, 2.0), (5.0, 0.1), (None, None)))
    slow = har(RNN, 95, best_seconds=20.0, curve=Curve((1.0, 2.0), (0.1, 0.2), (None, None)))
    for measure in ("time", "loss"):
        assert outcome(f"{ERNN} beats {RNN}", quick, slow, measure=measure) == "held"
        assert outcome(f"{RNN} beats {ERNN}", quick, slow, measure=measure) == "did not hold"
    assert outcome(f"{ERNN} beats {RNN}", har(ERNN, 95), har(RNN, 91), measure="time") == "not run yet"
    busy = har(ERNN, 95, best_seconds=5.0, hardware={"cores": 2, "load": 9.0})
    assert outcome(f"{ERNN} beats {RNN}", busy, slow, measure="time") == "not run yet"


def test_the_mean_of_seeds_counts() -> None:
    seeds = [har(ERNN, ours, seed=seed) for seed, ours in enumerate((90.0, 96.0, 96.0))]  # mean 94
    assert outcome(f"{ERNN} beats {RNN}", *seeds, har(RNN, 93.9)) == "held"
    assert outcome(f"{ERNN} beats {RNN}", *seeds, har(RNN, 94.1)) == "did not hold"
    words = judged(Claim(text="", compare=(f"{ERNN} beats {RNN}",)), *seeds, har(RNN, 94.1)).numbers
    assert words == "HAR-2: ERNN 94.00 ± 3.46 (3) against RNN 94.10"


@pytest.mark.parametrize(
    ("relation", "tolerance", "ours", "expected"),
    [
        ("reaches", 1.0, 94.0, "held"),
        ("reaches", 1.0, 93.9, "did not hold"),
        ("reaches", 0.0, 95.0, "held"),
        ("beats", 1.0, 96.0, "did not hold"),
        ("beats", 1.0, 96.1, "held"),
    ],
)
def test_tolerances(relation: str, tolerance: float, ours: float, expected: str) -> None:
    assert outcome(f"{ERNN} {relation} {RNN}", har(ERNN, ours), har(RNN, 95), tolerance=tolerance) == expected
    assert outcome(f"{ERNN} {relation} 95", har(ERNN, ours), tolerance=tolerance) == expected


def test_solved_and_failed() -> None:
    name = "figure2/t400/lstm"
    solved, failed = result(f"rin/{name}", True), result(f"rin/{name}", False, seed=1)
    assert outcome(f"{name} solves", solved, paper="rin") == "held"
    assert outcome(f"{name} fails", solved, paper="rin") == "did not hold"
    assert outcome(f"{name} fails", failed, paper="rin") == "held"
    assert outcome(f"{name} solves", solved, failed, paper="rin") == "did not hold"  # in one seed of two
    words = judged(Claim(text="", compare=(f"{name} solves",)), solved, failed, paper="rin").numbers
    assert words == "T = 400: LSTM solved in 1 of 2 runs"


def test_solved_means_below_the_limit_of_the_task_with_every_seed() -> None:
    name = "memory/repeat-copy/memory"
    good, bad = (result(f"textbook/{name}", test, test=test, seed=seed) for seed, test in enumerate((0.009, 0.02)))
    assert outcome(f"{name} solves", good, paper="textbook") == "held"
    assert outcome(f"{name} fails", good, paper="textbook") == "did not hold"
    assert outcome(f"{name} solves", good, bad, paper="textbook") == "did not hold"
    assert outcome(f"{name} solves", paper="textbook") == "not run yet"
    words = judged(Claim(text="", compare=(f"{name} solves",)), good, paper="textbook").numbers
    assert words == "Repeat copy: Memory solved (0.0090)"


def test_other_scores_can_be_compared() -> None:
    names = [f"feeding/long/{name}" for name in ("scheduled", "teacher")]
    errors = {names[0]: 0.01, names[1]: 0.03}
    results = [result(f"textbook/{n}", -error, scores={"free_running_error": error}) for n, error in errors.items()]
    line = " beats ".join(names)
    assert outcome(line, *results, paper="textbook", measure="free_running_error") == "held"
    assert outcome(line, *results, paper="textbook") == "did not hold"  # by the likelihood
    assert outcome(line, *results, paper="textbook", measure="length_distance") == "not run yet"


def test_a_mean_needs_all_of_its_recipes() -> None:
    tasks = [result(f"rin/table3/rin/task-{n:02}", 50.0 + n) for n in range(1, 21)]  # mean 60.5
    assert outcome("mean:table3/rin/* beats 60.4", *tasks, paper="rin") == "held"
    assert outcome("mean:table3/rin/* beats 60.6", *tasks, paper="rin") == "did not hold"
    assert outcome("mean:table3/rin/* beats 60.4", *tasks[1:], paper="rin") == "not run yet"


def test_a_star_is_what_validation_chose() -> None:
    names = ("table1/inn-error/b-0.5", "table1/b-gru/b-0.5")
    chosen = result(f"inn/{names[0]}", 0.2, validation=0.1), result(f"inn/{names[1]}", 0.1, validation=0.2)
    assert outcome("table1/*/b-0.5 beats 0.15", *chosen, paper="inn") == "did not hold"  # 0.2, not the better 0.1


def test_several_comparisons() -> None:
    claim = Claim(text="", compare=(f"{ERNN} beats {RNN}", f"{ERNN} beats {GRU}"))
    assert judged(claim).verdict == "not run yet"
    assert judged(claim).numbers == "–"
    assert judged(claim, har(ERNN, 95), har(RNN, 91)).verdict == "held so far (1 of 2 compared)"
    assert judged(claim, har(ERNN, 95), har(RNN, 91), har(GRU, 94)).verdict == "held"
    assert judged(claim, har(ERNN, 95), har(RNN, 91), har(GRU, 96)).verdict == "**did not hold** (1 of 2 held)"
    assert judged(claim, har(ERNN, 90), har(RNN, 91)).verdict == "**did not hold**"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (f"{ERNN} better {RNN}", "relation must be one of beats, reaches, solves, fails; got 'better'"),
        (ERNN, "relation must be one of beats, reaches, solves, fails; got ''"),
        (f"{ERNN} beats", "have 2 sides with 'beats'"),
        (f"{ERNN} solves {RNN}", "have 1 sides with 'solves'"),
        (f"{ERNN} beats table3/har-2/nothing", "name recipes below the paper's folder; got 'table3/har-2/nothing'"),
        ("median:table3/har-2/* beats 5", "name recipes below the paper's folder"),
    ],
)
def test_mistakes_in_claims(line: str, complaint: str) -> None:
    with pytest.raises(InputError, match=rf"paper\.toml: .*{complaint}"):
        outcome(line)


def test_every_claim_of_the_papers_can_be_judged() -> None:
    papers = read_papers(ROOT)
    assert [paper.id for paper in papers] == ["inn", "rin", "antisymmetric", "ernn", "textbook"]
    for paper in papers:
        assert {one.outcome for one in paper.judgements({})} == {"not run yet"}
