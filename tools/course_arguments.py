"""Command lines whose errors read as those of ./course: what was found, what was wanted, where the options are."""
import argparse
import difflib
import re
import sys


class Parser(argparse.ArgumentParser):
    def __init__(self, **words):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **words)

    def wanted(self, option):
        return next(action.metavar for action in self._actions if option in action.option_strings)

    def error(self, message):
        guess = ""
        if unknown := re.search(r"unrecognized arguments: (\S+)", message):
            word = unknown[1].split("=")[0]
            message = f"unknown option '{word}'" if word.startswith("-") else f"unexpected '{word}'"
            near = difflib.get_close_matches(word, re.findall(r"--\w[\w-]*", self.format_help()), 1)
            guess = f" did you mean {near[0]}?" if near else ""
        elif lacking := re.search(r"argument (\S+): expected one argument", message):
            message = f"{lacking[1]}: a value is missing, wanted {self.wanted(lacking[1])}"
        elif wrong := re.search(r"argument (\S+): invalid \w+ value: (.*)", message):
            message = f"{wrong[1]}: found {wrong[2]}, wanted {self.wanted(wrong[1])}"
        elif both := re.search(r"argument (\S+): not allowed with argument (\S+)", message):
            message = f"{both[1]} excludes {both[2]}"
        print(f"error: {message};{guess} {self.prog.removesuffix(' N')} --help lists the options", file=sys.stderr)
        sys.exit(2)
