"""Charts as SVG, drawn with the colours of the page, so that they fit light and dark."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autapse.report.html import Html, joined, tag

WIDTH, HEIGHT = 480.0, 290.0  # of the drawing; the page scales it
LEFT, RIGHT, TOP, BOTTOM = 66.0, 10.0, 10.0, 42.0
COLOURS = 8  # the style sheet has c0 to c7
MOST_POINTS = 300  # of one curve
MOST_DOTS = 400  # of a scatter plot
BINS = 31
ROW = 26.0  # height of one bar
LOG_RATIO = 30.0  # bars whose lengths differ more than this have a logarithmic axis

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Scale:
    """Where the values from `low` to `high` are drawn."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        a, b, v = (math.log10(x) if self.log else x for x in (self.low, self.high, value))
        return round(self.start + (v - a) / (b - a) * (self.end - self.start), 2)

    def ticks(self, count: int = 5) -> list[float]:
        """Round values inside the scale."""
        return _log_ticks(self.low, self.high) if self.log else _ticks(self.low, self.high, count)


def shown(value: float | None) -> str:
    """A number for people.

    >>> shown(1234567.0), shown(0.000012345), shown(0.5), shown(None)
    ('1,234,567', '1.23e-05', '0.5', '')
    """
    if value is None:
        return ""
    if not math.isfinite(value):
        return "not finite"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def line_chart(
    title: str,
    curves: Mapping[str, Points],
    lines: Mapping[str, float],
    xlabel: str,
    ylabel: str,
    numbers: Mapping[str, int] | None = None,
) -> Html:
    """Curves over steps, with horizontal lines to compare with. Logarithmic if all values are above 0.

    `numbers` has the number of each curve's colour; by default its place.
    """
    kept = {name: _thinned(points) for name, points in curves.items() if points}
    if not kept:
        return Html("")
    ys = [y for points in kept.values() for _, y in points]
    log = min(ys) > 0 and max(ys) / min(ys) > 5
    lines = {name: value for name, value in lines.items() if value > 0 or not log}
    xs = [x for points in kept.values() for x, _ in points]
    x = Scale(*_range(min(xs), max(xs), pad=0.0), LEFT, WIDTH - RIGHT)
    y = Scale(*_range(min([*ys, *lines.values()]), max([*ys, *lines.values()]), log), HEIGHT - BOTTOM, TOP, log)
    colours = {name: (numbers or {}).get(name, n) for n, name in enumerate(kept)}
    drawn = [_axes(x, y, xlabel, ylabel)]
    drawn += [_level(y(value), x, n) for n, value in enumerate(lines.values())]
    drawn += [_curve(points, x, y, colours[name]) for name, points in kept.items()]
    drawn.append(tag("line", class_="rule", x1=0, x2=0, y1=TOP, y2=HEIGHT - BOTTOM))
    data = [{"name": name, "c": colours[name], "p": points} for name, points in kept.items()]
    picture = _picture(
        drawn, HEIGHT, title, data_curves=json.dumps(data), data_x=json.dumps([x.low, x.high, LEFT, x.end])
    )
    keys = [_key(name, f"line {colour_class(colours[name])}") for name in kept]
    keys += [_key(f"{name} ({shown(value)})", f"level l{n % 2}") for n, (name, value) in enumerate(lines.items())]
    return figure(title, picture, tag("div", *keys, class_="legend") if len(keys) > 1 else Html(""))


def bar_chart(title: str, bars: Mapping[str, float], lines: Mapping[str, float], xlabel: str) -> Html:
    """One bar for each name, with vertical lines to compare with."""
    if not bars:
        return Html("")
    values = [*bars.values(), *lines.values()]
    positive = [value for value in values if value > 0]
    log = min(bars.values()) > 0 and max(positive) / min(positive) > LOG_RATIO
    lines = {name: value for name, value in lines.items() if value > 0 or not log}
    values = [*bars.values(), *lines.values()]
    low, high = _range(min(values) if log else min(0.0, *values), max(values), log)
    left = min(170.0, 14 + 6.6 * max(map(len, bars)))
    height = TOP + ROW * len(bars) + BOTTOM
    x = Scale(low / 1.5 if log else low, high, left, WIDTH - RIGHT, log)
    drawn = [_x_axis(x, height - BOTTOM, xlabel)]
    for n, (name, value) in enumerate(bars.items()):
        top = TOP + n * ROW
        end, start = x(value), x.start if log else x(0.0)
        box = {"x": min(start, end), "y": top + 5, "width": max(1.0, abs(end - start)), "height": ROW - 10, "rx": 2}
        tip = f"{name}: {shown(value)}"
        label = tag("text", _short(name, left), x=left - 6, y=top + ROW / 2 + 4, text_anchor="end", class_="name")
        drawn.append(label)
        drawn.append(tag("rect", class_=f"bar {colour_class(n)}", data_tip=tip, **box))
    for n, value in enumerate(lines.values()):
        place = x(value)
        drawn.append(tag("line", class_=f"level l{n % 2}", x1=place, x2=place, y1=TOP, y2=height - BOTTOM))
    keys = [_key(f"{name} ({shown(value)})", f"level l{n % 2}") for n, (name, value) in enumerate(lines.items())]
    return figure(title, _picture(drawn, height, title), tag("div", *keys, class_="legend"))


def scatter_chart(title: str, points: Points, xlabel: str, ylabel: str, number: int = 0) -> Html:
    """Points, with the diagonal on which both values are equal."""
    stride = max(1, -(-len(points) // MOST_DOTS))
    some = points[::stride]
    low, high = _range(min(min(p) for p in some), max(max(p) for p in some))
    x, y = Scale(low, high, LEFT, WIDTH - RIGHT), Scale(low, high, HEIGHT - BOTTOM, TOP)
    drawn = [_axes(x, y, xlabel, ylabel)]
    drawn.append(tag("line", class_="level l0", x1=x(low), y1=y(low), x2=x(high), y2=y(high)))
    dots = [
        tag("circle", cx=x(a), cy=y(b), r=2.6, data_tip=f"{xlabel} {shown(a)}, {ylabel} {shown(b)}") for a, b in some
    ]
    drawn.append(tag("g", *dots, class_=f"dots {colour_class(number)}"))
    return figure(title, _picture(drawn, HEIGHT, title))


def histogram(title: str, values: Sequence[float], xlabel: str, number: int = 0) -> Html:
    """How often values are in each of a few intervals."""
    low, high = _range(min(values), max(values), pad=0.0)
    width = (high - low) / BINS
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int((value - low) / width))] += 1
    x, y = Scale(low, high, LEFT, WIDTH - RIGHT), Scale(0, max(counts) * 1.05, HEIGHT - BOTTOM, TOP)
    drawn = [_axes(x, y, xlabel, "count")]
    for n, count in enumerate(counts):
        left, right, top = x(low + n * width), x(low + (n + 1) * width), y(count)
        tip = f"{shown(low + n * width)} to {shown(low + (n + 1) * width)}: {count:,}"
        box = {"x": left + 0.5, "y": top, "width": right - left - 1, "height": HEIGHT - BOTTOM - top}
        drawn.append(tag("rect", class_=f"bar {colour_class(number)}", data_tip=tip, **box))
    return figure(title, _picture(drawn, HEIGHT, title))


def figure(title: str, picture: Html, *below: Html) -> Html:
    """A chart with its title above and its legend below."""
    return tag("figure", tag("figcaption", title), picture, *below)


def colour_class(number: int) -> str:
    """The class of a colour; after the last colour they begin again, dashed."""
    return f"c{number % COLOURS}" + (" dashed" if number // COLOURS % 2 else "")


def _picture(drawn: Sequence[Html], height: float, title: str, **data: str) -> Html:
    return tag("svg", *drawn, viewBox=f"0 0 {WIDTH:g} {height:g}", role="img", aria_label=title, **data)


def _axes(x: Scale, y: Scale, xlabel: str, ylabel: str) -> Html:
    bottom = HEIGHT - BOTTOM
    parts = []
    for value in y.ticks():
        place = y(value)
        parts.append(tag("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=place, y2=place))
        parts.append(tag("text", _tick(value), x=LEFT - 6, y=place + 4, text_anchor="end"))
    turned = f"rotate(-90 12 {(TOP + bottom) / 2:g})"
    parts.append(
        tag("text", ylabel, x=12, y=(TOP + bottom) / 2, text_anchor="middle", transform=turned, class_="label")
    )
    return joined([*parts, _x_axis(x, bottom, xlabel)])


def _x_axis(x: Scale, bottom: float, label: str) -> Html:
    parts = [tag("line", class_="axis", x1=x.start, x2=x.end, y1=bottom, y2=bottom)]
    for value in x.ticks():
        place = x(value)
        parts.append(tag("line", class_="axis", x1=place, x2=place, y1=bottom, y2=bottom + 4))
        parts.append(tag("text", _tick(value), x=place, y=bottom + 17, text_anchor="middle"))
    middle = (x.start + x.end) / 2
    return joined([*parts, tag("text", label, x=middle, y=bottom + 36, text_anchor="middle", class_="label")])


def _curve(points: Points, x: Scale, y: Scale, number: int) -> Html:
    if len(points) == 1:
        return tag("circle", class_=f"dots {colour_class(number)}", cx=x(points[0][0]), cy=y(points[0][1]), r=3)
    return tag("polyline", class_=f"line {colour_class(number)}", points=" ".join(f"{x(a)},{y(b)}" for a, b in points))


def _level(place: float, x: Scale, number: int) -> Html:
    return tag("line", class_=f"level l{number % 2}", x1=x.start, x2=x.end, y1=place, y2=place)


def _key(name: str, kind: str) -> Html:
    swatch = tag("svg", tag("line", class_=kind, x1=0, x2=20, y1=5, y2=5), viewBox="0 0 20 10", class_="swatch")
    return tag("span", swatch, name)


def _short(name: str, room: float) -> str:
    most = int(room / 6.6)
    return name if len(name) <= most else name[: most - 1] + "…"


def _thinned(points: Points) -> list[tuple[float, float]]:
    """At most `MOST_POINTS` points, each the mean of its neighbours; the last one stays."""
    known = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    size = -(-len(known) // MOST_POINTS) or 1
    groups = [known[n : n + size] for n in range(0, len(known), size)]
    return [(group[-1][0], float(f"{sum(y for _, y in group) / len(group):.5g}")) for group in groups]


def _range(low: float, high: float, log: bool = False, pad: float = 0.04) -> tuple[float, float]:
    """Limits with some room around the values."""
    if log:
        room = max(high / low, 1.2) ** pad
        return low / room, high * room
    room = pad * (high - low)
    if low == high:
        room = abs(low) * 0.1 or 1.0
    return low - room, high + room


def _ticks(low: float, high: float, count: int) -> list[float]:
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= rough)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{n * step:.10g}") for n in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = last - first
    inside = (1, 2, 5) if decades <= 3 else (1,)
    stride = max(1, decades // 6)
    every = [n * 10.0**power for power in range(first, last + 1, stride) for n in inside]
    return [value for value in every if low <= value <= high] or [low, high]


def _tick(value: float) -> str:
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        mantissa, exponent = f"{value:.0e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:,g}" if abs(value) >= 1000 else f"{value:g}"
