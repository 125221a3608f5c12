# SPDX-License-Identifier: Apache-2.0
"""tools/embed-page: one style, one script, their hashes; pages that the policy would break are refused."""
import base64
import hashlib
import importlib.machinery
import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("embed_page", str(ROOT / "tools" / "embed-page"))
embed = importlib.util.module_from_spec(importlib.util.spec_from_loader("embed_page", loader))
loader.exec_module(embed)

PAGE = ('<html>\n<link rel="stylesheet" href="a.css">\n<body>\n{body}<script src="a.js"></script>\n'
        '<script src="b.js"></script>\n</body></html>\n')


class EmbedPage(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "a.css").write_text("p { color: red }\n")
        (self.folder / "a.js").write_text("let a = 'ä';\n")
        (self.folder / "b.js").write_text("let b = 2;\n")

    def make(self, body=""):
        page = self.folder / "p.html"
        page.write_text(PAGE.format(body=body))
        return embed.make(page)

    def test_one_script_and_its_hash(self):
        html, policy = self.make()
        script = "\nlet a = 'ä';\nlet b = 2;\n"
        self.assertIn(f"<script>{script}</script>", html)
        self.assertEqual(html.count("<script"), 1)
        self.assertNotIn("a.css", html)
        hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        self.assertIn(f"script-src 'sha256-{hashed}';", policy)

    def test_refused(self):
        for body in ('<p style="x">', '<p onclick="x">', "<script>x</script>", '<img src="http://x/y">',
                     '<a href="//x">'):
            with self.assertRaises(embed.PageError, msg=body):
                self.make(body)
        (self.folder / "b.js").write_text("let b = '</script>';\n")
        with self.assertRaises(embed.PageError):
            self.make()

    def test_c_string(self):
        self.assertEqual(embed.c_string('a"\\?\n\u00e91'), '    "a\\042\\134\\077\\012"\n    "\\303\\2511"')


if __name__ == "__main__":
    unittest.main()
