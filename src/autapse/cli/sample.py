"""`autapse sample RUN`: write text with a language model, or draw sequences from a generator."""

from __future__ import annotations

from pathlib import Path

from autapse import checks, terminal
from autapse.cli.parse import parse
from autapse.cli.sample_options import Sample


def main(words: list[str]) -> None:
    args = parse(Sample, "sample", words)
    checks.seed("seed", args.seed)
    _check_amounts(args)
    from autapse.cli.sample_sequences import write_sequences
    from autapse.cli.sample_text import write_text
    from autapse.models import EncoderDecoder, Generator, LanguageModel
    from autapse.training import load_run

    model, config, signature = load_run(args.run, trust=args.trust)
    if isinstance(model, LanguageModel):
        refuse(args, "a language model", "count", "length", "given", "out", "picture")
        terminal.write(write_text(model, signature.vocabularies[0], args))
    elif isinstance(model, Generator):
        refuse(args, "a generator, which draws whole sequences: use --count or --length", "words")
        write_sequences(model, args)
    else:
        what = "neither a language model nor a generator"
        remedy = "Train one: autapse run ptb, autapse run strokes, or autapse run my.txt."
        if isinstance(model, EncoderDecoder):
            remedy = f"It translates: autapse predict {args.run} FILE."
        raise checks.InputError(f"{args.run} is a run on {config.task.name}, {what}. {remedy}")


def _check_amounts(args: Sample) -> None:
    """Check the numbers before the run is loaded."""
    checks.number("temperature", args.temperature, above=0.0)
    for name in ("count", "words", "length", "top_k"):
        if getattr(args, name) is not None:
            checks.integer(name, getattr(args, name), minimum=1)
    if args.top_p is not None and checks.number("top_p", args.top_p, above=0.0) > 1:
        checks.fail("top_p", "be a share above 0 and at most 1", args.top_p)


def refuse(args: Sample, what: str, *names: str) -> None:
    """Raise an error if an option was given that a run does not have."""
    for name in names:
        value = getattr(args, name)
        if value is not None:
            checks.fail(name, f"be omitted for {what}", str(value) if isinstance(value, Path) else value)
