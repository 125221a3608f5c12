# SPDX-License-Identifier: Apache-2.0
"""tools/lint on small trees: a clean one has no findings, each broken rule has its own."""
import importlib.machinery
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("lint", str(ROOT / "tools" / "lint"))
lint = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint", loader))
loader.exec_module(lint)

TOP = "// SPDX-License-Identifier: Apache-2.0\n// What this small file is for.\n"
CLEAN = {
    "src/base/thing.h": "/* SPDX-License-Identifier: Apache-2.0\n *\n * A small thing of a test. */\n"
                        "#ifndef THING_H\n#define THING_H\n#include <stddef.h>\n\n"
                        "/* How many. */\nsize_t ft_thing_count(void);\n"
                        "size_t ft_thing_more(void);\n"
                        "\n#endif\n",
    "src/base/thing.c": TOP + '#include "base/thing.h"\n\nsize_t ft_thing_count(void)\n{\n'
                        "    return 3;\n}\n\nsize_t ft_thing_more(void)\n{\n    return 4;\n}\n",
    "src/cmd/main.c": TOP + '#include <stdio.h>\n#include <stdlib.h>\n#include "base/thing.h"\n\n'
                            'static const struct { const char *name; } flags[] = {{"--size"}};\n\n'
                            'int main(void)\n{\n    printf("%s", getenv("X"));\n    return 0;\n}\n',
    "tests/base/test_thing.c": TOP + '#include "base/thing.h"\nint n = ft_thing_count();\n',
    "docs/COMMANDS.md": "`--size N` is a flag\n",
    "README.md": "a small tree\n",
}


def function(name="f", parameters="void", body_lines=1):
    return f"int {name}({parameters})\n{{\n" + "    g();\n" * body_lines + "}\n"


class LintTest(unittest.TestCase):
    def setUp(self):
        self.tree = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.tree)

    def lint(self, **changes):
        """Messages of a run over the clean tree with these files added or replaced."""
        return [f"{n}:{line}: {m}" for n, line, m in self.run_lint(changes).findings]

    def run_lint(self, changes, compile_headers=False):
        files = {**CLEAN, **{k: v for k, v in changes.items() if v is not None}}
        for name, text in files.items():
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        subprocess.run(["git", "init", "-q", "."], cwd=self.tree, check=True)
        subprocess.run(["git", "add", "-A"], cwd=self.tree, check=True)
        run = lint.Lint(self.tree, (), compile_headers)
        run.findings = run.run()
        return run

    def expect(self, changes, *parts):
        findings = self.lint(**changes)
        self.assertEqual(len(findings), len(parts), findings)
        for finding, part in zip(findings, parts):
            self.assertIn(part, finding)

    def test_clean(self):
        self.expect({})

    def test_clean_with_compiler(self):
        run = self.run_lint({}, compile_headers=True)
        self.assertEqual(run.findings, [])

    def test_layers(self):
        extra = {
            "src/sched/a.c": TOP + '#include "base/thing.h"\n#include "wire/x.h"\n',
            "src/http/b.c": TOP + '#include "serve/x.h"\n#include "sched/y.h"\n'
                                  '#include "base/z.h"\n',
            "src/serve/c.c": TOP + '#include "edge/x.h"\n#include "http/x.h"\n'
                                   '#include <edge/y.h>\n',
            "src/edge/d.c": TOP + '#include "serve/x.h"\n#include "../serve/x.h"\n',
            "src/spec/e.c": TOP + '#include "foretoken.pb-c.h"\n#include "engine/x.h"\n',
        }
        self.expect(extra, "src/edge/d.c:3: room 'edge' may not", "src/edge/d.c:4: include relative",
                    "src/http/b.c:3: room 'http' may not", "src/http/b.c:4: room 'http' may not", "src/sched/a.c:4: room 'sched' may not",
                    "src/serve/c.c:3: room 'serve' may not include 'edge/x.h'")

    def test_unknown_room(self):
        self.expect({"src/misc/a.c": TOP}, "room 'misc' is not in the table")

    def test_circles(self):
        def file(name, *calls):
            return (TOP + f"int ft_{name}_go(void)\n{{\n" +
                    "".join(f"    ft_{c}_go();\n" for c in calls) + "}\n")
        tested = {"tests/spec/test_a.c": TOP + "ft_a_go();\n"}
        self.expect({"src/spec/a.c": file("a", "b"), "src/spec/b.c": file("b", "c"),
                     "src/spec/c.c": file("c"), **tested})
        self.expect({"src/spec/c.c": file("c", "a")},
                    "src/spec/a.c:1: files in a circle: a -> b (ft_b_go), b -> c (ft_c_go), "
                    "c -> a (ft_a_go)")
        table = TOP + '#include "spec/a.h"\nconst int ft_table[] = {1};\n' + file("c")[len(TOP):]
        self.expect({"src/spec/c.c": table})
        self.expect({"src/spec/c.c": table, "src/spec/b.c": file("b", "c") + "int *x = ft_table;\n",
                     "src/spec/a.c": file("a", "b")})
        self.expect({"src/spec/c.c": table + "int f(void)\n{\n    return ft_b_go();\n}\n"},
                    "files in a circle: b -> c (ft_table), c -> b (ft_b_go)")
        self.expect({"src/spec/c.c": TOP + "/* ft_a_go() */\n" + file("c")[len(TOP):]})

    def test_columns(self):
        self.expect({"src/cmd/a.c": TOP + "// " + "x" * 97 + "\n"})
        self.expect({"src/cmd/a.c": TOP + "// " + "x" * 98 + "\n"}, "src/cmd/a.c:3: 101 columns")
        self.expect({"src/cmd/a.c": TOP + 'x = "' + "x" * 98 + '";\n'}, "105 columns")
        self.expect({"src/cmd/a.c": TOP, "docs/a.md": "x" * 200 + "\n"})

    def test_file_length(self):
        self.expect({"src/cmd/long.c": TOP + "\n" * 599}, "src/cmd/long.c:601: 601 lines")
        self.expect({"src/cmd/long.c": TOP + "\n" * 598})
        self.expect({"src/cmd/long.c": TOP, "tools/x": "#!/bin/sh\n" + "\n" * 600}, "tools/x:601")
        self.expect({"tools/x": "", "tests/base/test_x.c": TOP + "\n" * 898})
        self.expect({"tests/base/test_x.c": TOP + "\n" * 899}, "tests/base/test_x.c:901: 901 lines")

    def test_function_length(self):
        body = function(body_lines=58)
        self.expect({"src/cmd/f.c": TOP + body})
        self.expect({"src/cmd/f.c": TOP + "\n" + function(body_lines=59)},
                    "src/cmd/f.c:4: f: 61 lines")

    def test_structs_and_arrays_are_no_functions(self):
        rows = "    1,\n" * 100
        self.expect({"src/cmd/f.c": TOP + "static const int x[] = {\n" + rows + "};\n"})

    def test_parameters(self):
        six = "int a, int b, int c, int d, int e, int f"
        pointers = "int (*a)(int, int, int), int b[2], int c, int d, int e, int f"
        self.expect({"src/cmd/f.c": TOP + function(parameters=six)})
        self.expect({"src/cmd/f.c": TOP + function(parameters=pointers)})
        self.expect({"src/cmd/f.c": TOP + function(parameters=six + ",\n      int g")},
                    "src/cmd/f.c:3: f: 7 parameters")
        for mark in ("/* as libx has it; lint: library signature */\n",
                     "// lint: library signature\n"):
            self.expect({"src/cmd/f.c": TOP + "\n" + mark + function(parameters=six + ", int g")})

    def test_mark_of_another_function_does_not_count(self):
        seven = "int a, int b, int c, int d, int e, int f, int g"
        text = "// lint: library signature\n" + function("one", seven) + function("two", seven)
        self.expect({"src/cmd/f.c": TOP + text}, "two: 7 parameters")

    def test_openings(self):
        self.expect({"src/cmd/a.c": "int x;\n"}, "src/cmd/a.c:1: begins with")
        self.expect({"src/cmd/a.c": TOP.splitlines()[0] + "\n\nint x;\n"}, "src/cmd/a.c:2: says")
        self.expect({"src/cmd/a.c": TOP.splitlines()[0] + "\n// Stuff.\nint x;\n"}, "a.c:2: says")
        block = "/* SPDX-License-Identifier: Apache-2.0\n *\n * Says what it is. */\nint x;\n"
        self.expect({"src/cmd/a.c": block})

    def test_headers_compile_alone(self):
        if not shutil.which("cc"):
            self.skipTest("no C compiler")
        bad = CLEAN["src/base/thing.h"].replace("#include <stddef.h>\n", "")
        run = self.run_lint({"src/base/thing.h": bad}, compile_headers=True)
        self.assertEqual(len(run.findings), 1, run.findings)
        self.assertEqual(run.findings[0][:2], ("src/base/thing.h", 8))
        self.assertIn("does not compile alone", run.findings[0][2])

    def test_header_of_a_missing_library_is_skipped_loudly(self):
        if not shutil.which("cc"):
            self.skipTest("no C compiler")
        far = CLEAN["src/base/thing.h"].replace("<stddef.h>", "<no_such_library.h>")
        own = CLEAN["src/base/thing.h"].replace("<stddef.h>", '"base/nothing.h"')
        run = self.run_lint({"src/base/thing.h": far}, compile_headers=True)
        self.assertEqual(run.findings, [])
        self.assertIn("no_such_library.h", run.skipped[0])
        run = self.run_lint({"src/base/thing.h": own}, compile_headers=True)
        self.assertIn("base/nothing.h", run.findings[0][2])
        template = own.replace("for tests", "lint: template header").replace(
            "of a test", "lint: template header")
        run = self.run_lint({"src/base/thing.h": template}, compile_headers=True)
        self.assertEqual((run.findings, run.skipped), ([], []))

    def test_contracts(self):
        head = "/* SPDX-License-Identifier: Apache-2.0\n * A header of the test tree. */\n"
        declared = ("int ft_a(int x);\nFT_WARN_UNUSED ft_status ft_b(int x,\n    int y);\n"
                    "const char *const *ft_c(void);\n__attribute__((noreturn)) void ft_d(void);\n")
        no_functions = ("typedef int (*ft_fn)(int);\nstruct x {\n    int (*f)(int);\n};\n"
                        "#define FT_X(a) \\\n    f(a);\nstatic inline int ft_e(int x)\n{\n"
                        "    return g(x);\n}\nextern int ft_variable;\n")
        self.expect({"src/base/t.h": head + "\n" + declared}, *[
            f"ft_{c}: no comment" for c in "abcd"])
        self.expect({"src/base/t.h": head + "\n/* The four. */\n" + declared})
        self.expect({"src/base/t.h": head + "\n// The four.\n" + declared})
        self.expect({"src/base/t.h": head + "\n" + no_functions})
        self.expect({"src/base/t.h": head + "\n/* One. */\nint ft_a(void);\n\nint ft_b(void);\n"},
                    "src/base/t.h:7: ft_b")
        self.expect({"src/base/t.h": head + "\nint ft_a(int x); /* One. */\n"})

    def test_words(self):
        for word in ("to" "do", "FIX" "ME", "Stu" "b", "not Imple" "mented"):
            with self.subTest(word):
                self.expect({"docs/a.md": f"x\nhere: {word}.\n"}, "docs/a.md:2: ")
                self.expect({"docs/a.md": f"x{word} {word}x _{word} {word}_\n"})

    def test_machine_paths(self):
        for path in ("/wo" "rk/x", '"/ro' 'ot"', "/ho" "me/ann/x", "=/fa" "rm/y"):
            with self.subTest(path):
                self.expect({"tools/a.sh": f"cd {path}\n"}, "tools/a.sh:1: ")
        self.expect({"tools/a.sh": "/worker /tmp/x ~/home src/wo" "rk/x ./ro" "ot/ $D/ho" "me\n"})

    def test_calls(self):
        calls = ("exit(1)", "_exit(1)", "abort()", 'printf("x")', 'fprintf(stderr, "x")',
                 'perror("x")', "fputs(text, stdout)", 'getenv("HOME")', 'secure_getenv("HOME")')
        for call in calls:
            with self.subTest(call):
                text = TOP + f"void f(void)\n{{\n    {call};\n}}\n"
                self.expect({"src/base/thing.c": text}, "src/base/thing.c:5: ")
        fine = ('/* exit(1) */ x = "abort()"; // printf("x")\npthread_exit(0); fprintf(out, "x");\n'
                "snprintf(a, b, c); t->exit(1); ft_buf_printf(b, c);\n")
        self.expect({"src/base/thing.c": TOP + fine})
        self.expect({"src/base/log.c": TOP + "// log\nfputs(x, stderr);\n",
                     "src/base/thing.c": TOP, "tests/base/test_log.c": TOP + "// log\n"})

    def test_environment_in_other_commands(self):
        self.expect({"src/cmd/serve.c": TOP + 'x = getenv("X");\nexit(1);\n'}, "src/cmd/serve.c:3")

    def test_every_source_is_tested(self):
        untested = "src/base/other.c:1: no test calls a function of it or of a file that calls it"
        other = TOP + "\n" + function("ft_far_go")
        self.expect({"src/base/other.c": other}, untested)
        for text in ("// of other.c: ft_far_go()\n", '#include "base/other.h"\n', "ft_far_go_on();\n",
                     'x = "ft_far_go()";\n'):
            with self.subTest(text):
                self.expect({"tests/base/test_o.c": TOP + text}, untested)
        self.expect({"tests/base/test_o.c": TOP + "ft_far_go();\n"})
        user = TOP + "int ft_use(void)\n{\n    return ft_far_go();\n}\n"
        self.expect({"tests/base/test_o.c": TOP + "ft_use();\n", "src/base/user.c": user})
        self.expect({"src/base/user.c": TOP, "src/engine/user.c": user}, untested)

    def test_flags_are_in_the_manual(self):
        row = TOP + 'static flag f[] = {\n    {"--size", 0},\n    {"--siz", 0},\n    {"-x", 0}};\n'
        self.expect({"src/cmd/a.c": row}, "src/cmd/a.c:5: --siz is not")

    def test_big_files(self):
        big = self.tree / "models" / "big.bin"
        big.parent.mkdir()
        with big.open("wb") as out:
            out.truncate(25 * 1000 * 1000 + 1)
        self.expect({}, "models/big.bin:1: 25000001 bytes")

    def test_untracked_files_do_not_count(self):
        self.expect({".gitignore": "ignored.c\n", "src/base/ignored.c": "exit(1);\n"})

    def test_program(self):
        self.run_lint({"src/cmd/bad.c": "int x;\n"})
        command = [sys.executable, ROOT / "tools" / "lint", "--root", self.tree, "--no-compile"]
        bad = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(bad.returncode, 1, bad.stderr)
        self.assertTrue(bad.stdout.startswith("src/cmd/bad.c:1: "), bad.stdout)
        (self.tree / "src/cmd/bad.c").unlink()
        good = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((good.returncode, good.stdout), (0, ""), good.stderr)


if __name__ == "__main__":
    unittest.main()
