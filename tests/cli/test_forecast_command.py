"""`autapse run FILE --forecast HORIZON`, and `autapse predict` for its run."""

import csv
import io
import json

import numpy as np
import pytest

import autapse
from command_line import mistake, said

TINY = "--hidden-size 4 --steps 4 --eval-every 2 --batch-size 8".split()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTAPSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def write(path, columns, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def sales(steps=150, seed=0):
    """Sales with a season of 7 days, to which a promotion adds 10; the temperature has nothing to do with it."""
    rng, time = np.random.default_rng(seed), np.arange(steps)
    promotion = (rng.random(steps) < 0.2).astype(int)
    level = 10 + 3 * np.sin(2 * np.pi * time / 7) + 10 * promotion + 0.2 * rng.normal(size=steps)
    return promotion, level, rng.normal(size=steps)


def test_one_series_from_the_file_to_the_forecast(capsys, folder):
    series = np.sin(2 * np.pi * np.arange(200) / 12)
    write(folder / "my.csv", ["time", "y"], [(t, f"{y:.5f}") for t, y in enumerate(series)])
    text = said(capsys, "run", "my.csv", "--forecast", "5", *TINY, "--out", "run")
    assert "one series of 200 steps" in text
    assert "season: 12 (found in the training part); window: 24 (chosen)" in text
    for name in ("this model", "least squares", "last season (trivial)", "last value (trivial)", "MSE", "MAE", "MASE"):
        assert name in text
    assert "80% interval" in text
    report = json.loads((folder / "run" / "forecast.json").read_text())
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["test"] == pytest.approx(report["errors"]["model"]["mse"], rel=1e-4)
    assert summary["baseline"] == pytest.approx(report["errors"]["last season"]["mse"], abs=1e-9)
    rows = list(csv.reader(io.StringIO(said(capsys, "predict", "run", "my.csv", "--out", "-"))))
    assert rows[0] == ["sequence", "step", "y", "y lower 0.8", "y upper 0.8", "y lower 0.95", "y upper 0.95"]
    assert [row[1] for row in rows[1:]] == ["1", "2", "3", "4", "5"]
    wanted = np.sin(2 * np.pi * np.arange(200, 205) / 12)
    np.testing.assert_allclose([float(row[2]) for row in rows[1:]], wanted, atol=0.02)
    model = autapse.load(folder / "run")
    values, lower, upper = model.forecast({"y": series}, intervals=(0.8, 0.95))
    np.testing.assert_allclose(
        [[float(v) for v in row[2:]] for row in rows[1:]],
        np.stack([values, lower[:, 0], upper[:, 0], lower[:, 1], upper[:, 1]], axis=1),
        atol=1e-4,
    )
    assert len(said(capsys, "predict", "run", "my.csv", "--steps", "9").splitlines()) == 10


def test_the_run_is_named_after_the_file_and_the_picture_is_there(capsys, folder):
    pytest.importorskip("matplotlib")
    write(folder / "energy.csv", ["y"], [(t % 6,) for t in range(80)])
    said(capsys, "run", "energy.csv", "--forecast=3", *TINY)
    assert (folder / "runs" / "energy-gru" / "forecast.png").read_bytes()[:4] == b"\x89PNG"


def test_known_columns_and_many_series(capsys, folder):
    shops = {"north": (1, *sales()), "south": (100, *sales(seed=1))}  # not one a multiple of the other: it would leak
    rows = [
        (shop, t, f"{factor * level[t]:.4f}", promotion[t], f"{temperature[t]:.3f}")
        for shop, (factor, promotion, level, temperature) in shops.items()
        for t in range(145)
    ]
    columns = ["shop", "day", "sales", "promotion", "temperature"]
    write(folder / "shops.csv", columns, rows)
    options = "--sequence-column shop --time-column day --target-column sales --known promotion --season 7".split()
    text = said(capsys, "run", "shops.csv", "--forecast", "5", *options, *TINY, "--out", "run")
    assert "2 series of 145 steps" in text
    assert "history only: temperature" in text
    assert "known ahead: promotion" in text
    errors = json.loads((folder / "run" / "forecast.json").read_text())["errors"]
    assert errors["model"]["mase"] < 0.7 * errors["last season"]["mase"]  # it knows nothing of promotions
    future = [(shop, t, "", promotion[t], "") for shop, (_, promotion, *_) in shops.items() for t in range(145, 150)]
    write(folder / "next.csv", columns, rows + future)
    said(capsys, "predict", "run", "next.csv", "--out", "forecasts.csv")
    with (folder / "forecasts.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [row["sequence"] for row in found] == ["north"] * 5 + ["south"] * 5
    values = np.array([float(row["sales"]) for row in found]).reshape(2, 5)
    truth = np.array([factor * level[145:] for factor, _, level, _ in shops.values()])
    assert (np.abs(values / truth - 1).mean(axis=1) < 0.25).all()  # a promotion about doubles the sales
    text = mistake(capsys, "predict", "run", "shops.csv")
    assert "shops.csv must have 5 rows after the end of series 'north', with promotion alone; got 0." in text
    write(folder / "other.csv", columns[:-1], [row[:-1] for row in rows])
    assert "temperature" in mistake(capsys, "predict", "run", "other.csv")


def test_only_the_columns_that_are_named_are_read(capsys, folder):
    _, level, temperature = sales()
    rows = [(f"{level[t]:.4f}", "rain", f"{temperature[t]:.3f}", t) for t in range(150)]
    write(folder / "one.csv", ["sales", "weather", "temperature", "day"], rows)
    text = mistake(capsys, "run", "one.csv", "--forecast", "5", "--time-column", "day")
    assert "column 'weather': 'rain' is not a finite number" in text
    assert "--channels" in text
    words = ["--time-column", "day", "--target-column", "sales", "--channels", "temperature"]
    text = said(capsys, "run", "one.csv", "--forecast", "5", *words, *TINY, "--out", "run")
    assert "forecast: sales, 5 steps ahead" in text
    assert "history only: temperature" in text
    assert len(said(capsys, "predict", "run", "one.csv").splitlines()) >= 5


def test_forecasts_without_intervals_one_step_at_a_time(capsys, folder):
    write(folder / "my.csv", ["y"], [(t % 6,) for t in range(100)])
    words = "--method recursive --intervals none --validation 0 --season 6 --window 12 --cell rin".split()
    text = said(capsys, "run", "my.csv", "--forecast", "4", *words, *TINY[:4], "--out", "run")
    assert "4 steps ahead (recursive)" in text
    assert "interval:" not in text
    assert "season: 6 (given); window: 12" in text
    lines = said(capsys, "predict", "run", "my.csv").splitlines()
    assert lines[0].split("\t") == ["sequence", "step", "y"]
    found = [float(line.split("\t")[2]) for line in lines[1:]]
    np.testing.assert_allclose(found, [4, 5, 0, 1], atol=0.05)


def test_eval_and_a_final_model(capsys, folder):
    write(folder / "my.csv", ["y"], [(t % 6,) for t in range(100)])
    said(capsys, "run", "my.csv", "--forecast", "2", *TINY, "--out", "run")
    assert "test mean squared error" in said(capsys, "eval", "run")
    before = json.loads((folder / "run" / "forecast.json").read_text())
    (folder / "run" / "forecast.json").unlink()
    assert "least squares" in said(capsys, "resume", "run", "--steps", "6")
    after = json.loads((folder / "run" / "forecast.json").read_text())
    assert after["errors"]["least squares"] == before["errors"]["least squares"]
    text = said(capsys, "run", "my.csv", "--forecast", "2", "--test-share", "0", "--validation", "0", *TINY)
    assert "There is no test part, so nothing is scored." in text


ROWS = "\n".join(f"{t},{t % 5},{t % 3}" for t in range(60))
MISTAKES = [
    (ROWS, "--forecast 0", "horizon must be an integer of at least 1; got 0."),
    (ROWS, "--forecast five", "--horizon"),
    (ROWS, "--forecast 50", "the series must have at least window + horizon ="),
    (
        ROWS,
        "--forecast 5 --window 40",
        "the series must have at least window + horizon = 40 + 5 = 45 steps for training",
    ),
    (ROWS, "--forecast 5 --target-column yy", "target_column must be among the columns y, k; got 'yy'."),
    (ROWS, "--forecast 5 --known kk", "known must be among the columns y, k; got 'kk'."),
    (ROWS, "--forecast 5 --time-column date", "has no column 'date'; its columns are time, y, k."),
    (ROWS, "--forecast 5 --sequence-column shop", "has no column 'shop'"),
    (ROWS + "\n59,1,2", "--forecast 5", "twice"),
    (
        ROWS + "\n60,,2",
        "--forecast 5",
        "column 'y': a value is missing. Forecasts need every value: fill the gaps first.",
    ),
    (ROWS + "\n60,nan,2", "--forecast 5", "'y'"),
    (ROWS + "\n60,much,2", "--forecast 5", "'much'"),
]


@pytest.mark.parametrize(("rows", "words", "message"), MISTAKES)
def test_mistakes_are_one_line(capsys, folder, rows, words, message):
    (folder / "my.csv").write_text(f"time,y,k\n{rows}\n")
    assert message in mistake(capsys, "run", "my.csv", *words.split(), *TINY)
    assert not (folder / "runs").exists()


def test_a_missing_file(capsys, folder):
    assert "no.csv is missing" in mistake(capsys, "run", "no.csv", "--forecast", "3")


def test_steps_are_for_forecasts_only(capsys, folder):
    rows = [f"{n},{t + n % 2},{n % 2}" for n in range(12) for t in range(3)]
    (folder / "my.csv").write_text("sequence,x,target\n" + "\n".join(rows) + "\n")
    said(capsys, "run", "my.csv", *TINY, "--out", "run")
    text = mistake(capsys, "predict", "run", "my.csv", "--steps", "3")
    assert "steps must be omitted for a run that does not forecast; got 3." in text
