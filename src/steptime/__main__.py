"""`python -m steptime`: what a torch.profiler trace tells, or where a training step goes, on one page."""

import argparse
import json
import os
import re
import sys

from steptime.trace import NotATrace, read

BAD_INPUT = 2


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one sentence."""

    def error(self, message):
        self.exit(BAD_INPUT, f"{self.prog}: {message} (-h lists what it takes)\n")


def main(arguments=None):
    """Run the command; returns its exit status, 2 for input that gives no answer."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # names in traces hold characters that a terminal may lack
    parser = _parser()
    wanted = parser.parse_args(arguments)
    if wanted.command == "diagnose":
        return _diagnose(wanted)
    if wanted.step and not wanted.plot:
        parser.error("--step chooses what --plot draws, so it needs --plot FILE.png")
    try:
        trace = read(wanted.file)
        if wanted.plot:
            _draw(trace, wanted.plot, wanted.step)
        print(json.dumps(_summary(trace), indent=1) if wanted.json else trace, flush=True)
    except NotATrace as problem:
        return _fail(problem)
    except MemoryError:
        return _fail(f"{wanted.file} holds more than fits into memory.")
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser():
    parser = Parser(prog="python -m steptime", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    trace = commands.add_parser("trace", help="read a torch.profiler trace", description="Read a torch.profiler trace.")
    trace.add_argument("file", metavar="FILE", help="JSON as export_chrome_trace writes it, plain or gzip")
    trace.add_argument("--json", action="store_true", help="print the answers as one JSON object")
    trace.add_argument("--plot", metavar="FILE.png", help="draw the timeline into a file, PNG, SVG or PDF by its name")
    trace.add_argument("--step", metavar="N", type=_steps, help="which step to draw, or a range: 3-5")
    diagnose = commands.add_parser(
        "diagnose", help="diagnose a training step", description="Where does a training step go, and what to try first?"
    )
    diagnose.add_argument(
        "place",
        metavar="module:function",
        help="a function without arguments that returns loader, step and, to have them restored, model and optimizer",
    )
    diagnose.add_argument("--plot", metavar="FILE.png", help="draw where a step goes into a file")
    diagnose.add_argument("--seconds", metavar="S", type=float, default=20.0, help="to be spent at most (20)")
    return parser


def _steps(text):
    match = re.fullmatch(r"(\d{1,15})(?:-(\d{1,15}))?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no step: write a number, or a range as 3-5")
    return int(match[1]), int(match[2] or match[1])


def _summary(trace):
    from steptime.trace.summary import summary

    return summary(trace)


def _draw(trace, path, steps):
    try:
        trace.plot(*(steps or ())).figure.savefig(path, dpi=110)
    except OSError as error:
        raise NotATrace(f"{path} cannot be written: {error.strerror or error}.") from None
    except ValueError as problem:
        raise NotATrace(str(problem)) from None


def _diagnose(wanted):
    from steptime.diagnosis.command import NoLoop, diagnose_place

    try:
        return diagnose_place(wanted.place, wanted.seconds, wanted.plot)
    except NoLoop as problem:
        return _fail(problem)
    except KeyboardInterrupt:
        return 130


def _fail(sentence):
    print(sentence, file=sys.stderr)
    return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
