"""What ./course and its tools say: lines that fit the terminal, errors, guesses at typos, help."""
import argparse
import os
import re
import sys
import textwrap

RED, GREEN = "31", "32"
ERASE = "\r\033[K"


def say(text):
    print(text, file=sys.stderr, flush=True)


def rewrites(stream):
    """Whether a line that is there can be replaced."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def move(text, stream=sys.stderr):
    """The line that moves becomes this one, which ends where the terminal does: of a broken line only the end would go away."""
    columns = os.get_terminal_size(stream.fileno()).columns or 80
    print(f"{ERASE}{text[: columns - 1]}", end="", file=stream, flush=True)


def coloured(text, colour, stream=sys.stderr):
    plain = not colour or not rewrites(stream) or os.environ.get("NO_COLOR")
    return text if plain else f"\033[{colour}m{text}\033[m"


def die(message):
    """Wrong use, or something that is not there: one line, and exit code 2."""
    say(f"{coloured('error:', RED)} {message}")
    sys.exit(2)


def output_columns():
    """As kv::output_columns(): of the terminal that standard output is, or else COLUMNS; None without both."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
        given = os.environ.get("COLUMNS", "")
        return int(given) if given.isdecimal() and int(given) > 0 else None


def help_columns():
    """Where a help ends; where there is no terminal, where most terminals do."""
    return output_columns() or 80


def indent_of(line):
    return len(line) - len(line.lstrip())


def column_of(line):
    """Where the second column of a line begins, which two or more spaces precede; without one, where the line does."""
    gap = re.match(r" *\S+(?: \S+)*  +(?=\S)", line)
    return gap.end() if gap else indent_of(line)


def fitted(text, columns=None):
    """A text as it is if it fits; or else each paragraph, and each entry of a list, broken again."""
    columns = columns or output_columns()
    lines = text.split("\n")
    if columns is None or max(map(len, lines)) <= columns:
        return text
    entries = []
    for line in lines:
        before = entries[-1] if entries else ""
        column = column_of(before)
        in_list = column > indent_of(before)
        if before and line and indent_of(line) == column and (in_list or column == column_of(line) == 0):
            entries[-1] += " " + line.lstrip()
        else:
            entries.append(line)
    broken = []
    for entry in entries:
        column = column_of(entry)
        if columns - column < 20:
            column = indent_of(entry) + 2
        whole_words = {"break_long_words": False, "break_on_hyphens": False}
        broken += textwrap.wrap(entry, max(columns, 20), subsequent_indent=column * " ", **whole_words) or [""]
    return "\n".join(broken)


def distance(a, b):
    """Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`."""
    rows = [list(range(len(b) + 1))]
    for i, x in enumerate(a, 1):
        rows.append([i])
        for j, y in enumerate(b, 1):
            swapped = rows[i - 2][j - 2] + 1 if i > 1 and j > 1 and a[i - 2 : i] == y + b[j - 2] else i + j
            rows[i].append(min(rows[i - 1][j - 1] + (x != y), rows[i - 1][j] + 1, rows[i][j - 1] + 1, swapped))
    return rows[-1][-1]


def nearest(word, words):
    """The word that was meant, or "". At most a third of the letters is wrong, or its end is missing, as in common/nearest.h."""
    letters = word.lower().lstrip("-")

    def wrong_letters(known):
        known = known.lstrip("-")
        return 0 if letters and known.startswith(letters) else distance(letters, known)

    near = min(words, key=wrong_letters, default="")
    return near if near and wrong_letters(near) <= len(letters) // 3 else ""


def guess(word, words, command=""):
    """" did you mean run?", or nothing where no word is near."""
    near = nearest(word, words)
    return f" did you mean {command}{near}?" if near else ""


def options_in(text):
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)))


class Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog):
        super().__init__(prog, max_help_position=34, width=help_columns())

    def _fill_text(self, text, width, indent):
        return fitted(text, width)


class Parser(argparse.ArgumentParser):
    """A description is the text of a help. If it lists the options itself, it has them all."""

    def __init__(self, description=None, prog=None, **words):
        sentence, _, rest = (description or "").strip().partition("\n\n")
        usage = f"{prog} [options]" if prog and prog.startswith("./course") else None
        super().__init__(prog=prog, usage=usage, description=sentence, epilog=rest, formatter_class=Help,
                         allow_abbrev=False, add_help=False, **words)
        self._optionals.title = "options"  # before Python 3.10 it is another
        shown = argparse.SUPPRESS if rest.startswith("options:") else "shows this help"
        self.add_argument("-h", "--help", action="help", help=shown)

    def wanted(self, option):
        return next(action.metavar for action in self._actions if option in action.option_strings)

    def error(self, message):
        meant = ""
        if unknown := re.search(r"unrecognized arguments: (\S+)", message):
            word = unknown[1].split("=")[0]
            message = f"unknown option '{word}'" if word.startswith("-") else f"unexpected '{word}'"
            meant = guess(word, options_in(self.format_help()))
        elif lacking := re.search(r"argument (\S+): expected one argument", message):
            message = f"{lacking[1]}: a value is missing, wanted {self.wanted(lacking[1])}"
        elif wrong := re.search(r"argument (\S+): invalid (?:\w+ value:|choice:) ([^(]*[^( ])", message):
            message = f"{wrong[1]}: found {wrong[2]}, wanted {self.wanted(wrong[1])}"
        elif both := re.search(r"argument (\S+): not allowed with argument (\S+)", message):
            message = f"{both[1]} excludes {both[2]}"
        die(f"{message};{meant} {self.prog.removesuffix(' N')} --help lists the options")


def end_with(main, *mistakes):
    """Runs main() and ends the program with its code. A reader who has left is no error; what was wrong is one line."""
    try:
        code = main() if sys.stdout else die("cannot write to standard output, which is closed")
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = 0
    except (OSError, *mistakes) as error:
        say(f"{coloured('error:', RED)} {error}")
        code = 2
    os._exit(code or 0)  # without another try to write what could not be written
