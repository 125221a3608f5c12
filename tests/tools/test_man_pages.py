# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/man-pages, with a program of a few lines that prints help as foretoken does."""
import importlib.machinery
import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("man_pages", str(ROOT / "tools" / "man-pages"))
spec = importlib.util.spec_from_loader(loader.name, loader)
man_pages = importlib.util.module_from_spec(spec)
loader.exec_module(man_pages)

PROGRAM = r"""#!/bin/sh
case "$*" in
--help) printf 'thing 1.2: does things\n\nusage: ...\n\n  serve     serves\n  model a   makes a\n\nTHING=1.\n' ;;
'completion bash') echo 'complete -F _thing thing' ;;
'serve --help') printf 'usage: foretoken serve [flags]\n\nServes.\n\n  --port N                       the port\n' ;;
'model a --help') printf 'usage: foretoken model a FILE\n\nMakes.\n\n' ;;
esac
"""


class ManPages(unittest.TestCase):
    def write(self, program):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        binary = folder / "thing"
        binary.write_text(program)
        binary.chmod(0o755)
        man_pages.write_all(binary, folder / "out")
        return {f.name: f.read_text() for f in sorted((folder / "out").rglob("*.*"))}

    def test_pages(self):
        files = self.write(PROGRAM)
        self.assertEqual(sorted(files), ["foretoken-model-a.1", "foretoken-serve.1", "foretoken.1",
                                         "foretoken.bash"])
        self.assertIn("\\fB\\-\\-port\\fR \\fIN\\fR\nthe port\n", files["foretoken-serve.1"])
        self.assertIn("foretoken\\-model\\-a\\fR(1)\nmakes a\n", files["foretoken.1"])
        self.assertIn("THING=1.", files["foretoken.1"])
        self.assertNotIn(".SH OPTIONS", files["foretoken-model-a.1"])
        self.assertEqual(files["foretoken.bash"], "complete -F _thing thing\n")
        self.assertEqual(files, self.write(PROGRAM))

    def test_a_help_of_another_form_is_an_error(self):
        for old, new in (("  serve     serves\\n  model a   makes a\\n", ""),
                         ("usage: foretoken serve", "serve"),
                         ("usage: foretoken serve", "usage: foretoken edge"),
                         ("--port N  ", "port       ")):
            self.assertIn(old, PROGRAM)
            with self.assertRaises(ValueError):
                self.write(PROGRAM.replace(old, new))

    def test_flags(self):
        row = man_pages.parse_flag
        self.assertEqual(row("  -m, --model FILE               a file"),
                         ("-m", "--model", "FILE", "a file"))
        self.assertEqual(row("  --json                         print one"),
                         (None, "--json", None, "print one"))
        self.assertEqual(row("  --a-very-long-name-of-a-flag VALUE what it is"),
                         (None, "--a-very-long-name-of-a-flag", "VALUE", "what it is"))
        self.assertEqual(row("  -s S                           seed"), (None, "-s", "S", "seed"))

    def test_roff_has_no_request_of_the_text(self):
        self.assertEqual(man_pages.roff(".so x\n'br\n\\fB-1"), "\\&.so x\n\\&'br\n\\efB\\-1")


if __name__ == "__main__":
    unittest.main()
