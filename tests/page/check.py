# SPDX-License-Identifier: Apache-2.0
"""Uses the chat page as a person does, in Chromium, against a real edge and real servers.

usage: check.py BINARY TARGET DRAFT [--screenshots FOLDER]

Ends with 1 if anything is not as it should be. tools/check-page installs what it needs.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parent))
import stand_in  # noqa: E402

CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--no-first-run"]
PATIENCE_MS = 120000
KEY = "a-key-for-the-page-of-these-tests"
SCHEMA = {"type": "object", "properties": {"where": {"enum": ["rock", "harbour"]}, "lamps": {"enum": [[]]},
                                            "on": {"const": True}},
          "required": ["where", "lamps", "on"], "additionalProperties": False}
QUESTION = "Write a short story about a lighthouse."
arguments = None


class Programs:
    """Processes that end with the tests."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp())
        self.running = []

    def start(self, name, *words):
        port_file = self.folder / name
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen([arguments.binary, *words, "--port", "0", "--port-file", str(port_file)],
                                       stdout=log, stderr=log)
        self.running.append(process)
        until = time.monotonic() + 120
        while not port_file.exists():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{name} did not start: {(self.folder / (name + '.log')).read_text()}")
            time.sleep(0.1)
        process.port = int(port_file.read_text())
        return process

    def server(self, name):
        return self.start(name, "serve", "-m", arguments.target, "--ctx-size", "2048")

    def edge(self, name, servers, *words):
        addresses = ",".join(f"127.0.0.1:{s.port}" for s in servers)
        # Trees of one size in each round, so that there are drafts to be seen on any machine.
        return self.start(name, "edge", "--server", addresses, "-md", arguments.draft, "--draft", "tree:8:4", *words)

    def stop(self):
        for process in self.running:
            process.kill()
        for process in self.running:
            process.wait()


class Person:
    """A browser's page and what a person does with it. Keeps what the browser complains of."""

    def __init__(self, browser, url, **how):
        self.context = browser.new_context(**({"viewport": {"width": 1280, "height": 800}} | how))
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.url, self.complaints, self.addresses = url, [], set()
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.on("request", lambda r: self.addresses.add(re.sub(r"^(\w+://[^/]*/).*", r"\1", r.url)))
        self.page.add_init_script(
            "window.reports = []; addEventListener('securitypolicyviolation', (e) => window.reports.push("
            "e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample))")
        self.page.goto(url)

    def settings(self, **values):
        self.page.click("#open-settings")
        self.settings_open(**values)

    def settings_open(self, **values):
        for name, value in values.items():
            self.page.fill(f"#{name.replace('_', '-')}", value)
        self.page.click("#settings button[type=submit]")

    def ask(self, text):
        self.page.fill("#ask", text)
        self.page.press("#ask", "Enter")

    def wait(self):
        self.page.wait_for_selector("#send", state="visible")

    def answers(self):
        return self.page.locator(".message.assistant")

    def chat(self):
        """The open chat as it is kept."""
        return self.page.evaluate(
            "JSON.parse(localStorage['foretoken.chat.' + JSON.parse(localStorage['foretoken.chats'])[0].id])")

    def close(self):
        self.context.close()


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = Programs()
        cls.addClassCleanup(cls.programs.stop)
        cls.server = cls.programs.server("server")
        cls.edge = cls.programs.edge("edge", [cls.server])
        cls.url = f"http://127.0.0.1:{cls.edge.port}/"
        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        cls.browser = cls.playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        cls.addClassCleanup(cls.browser.close)

    def person(self, url=None, **how):
        someone = Person(self.browser, url or self.url, **how)
        self.addCleanup(someone.close)
        return someone

    def assert_calm(self, person, but=()):
        """No report of the policy, no error in the console, and nothing asked of anybody else."""
        self.assertEqual(person.page.evaluate("window.reports"), [])
        self.assertEqual([c for c in person.complaints if not any(b in c for b in but)], [])
        self.assertEqual(person.addresses, {person.url})

    def assert_accessible(self, person):
        found = Axe().run(person.page, options={"resultTypes": ["violations"]})
        self.assertEqual(found.violations_count, 0, found.generate_report())

    def answer_of_api(self, **fields):
        body = {"messages": [{"role": "user", "content": QUESTION}], **fields}
        request = urllib.request.Request(self.url + "v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as r:
            return json.load(r)["choices"][0]["message"]["content"]

    def test_chat(self):
        p = self.person()
        p.settings(temperature="0.7", seed="11", max_tokens="60")
        p.ask(QUESTION)
        p.wait()
        kept = p.chat()["messages"][1]
        self.assertEqual(kept["text"], self.answer_of_api(temperature=0.7, seed=11, max_tokens=60))
        self.assertEqual(kept["spans"][-1][0], len(kept["text"]))
        self.assertLessEqual({s[1] for s in kept["spans"]}, {"draft", "early", "target", "run"})
        self.assertGreater(p.page.locator(".body .o.draft").count(), 0)
        self.assertGreater(p.page.locator(".body .o.target").count(), 0)
        p.page.locator(".body .o.target").first.hover()
        self.assertIn("Round 1,", p.page.inner_text("#tip"))
        p.page.focus("#strip")
        p.page.keyboard.press("End")
        self.assertIn(f"Round {kept['rounds'][-1]['n']},", p.page.inner_text("#round-text"))
        p.page.keyboard.press("ArrowLeft")
        self.assertIn(f"Round {kept['rounds'][-2]['n']},", p.page.inner_text("#round-text"))
        for value in p.page.locator(".plot .value").all_inner_texts():
            self.assertRegex(value, r"^\d+(\.\d+)?$")
        self.assert_calm(p)

    def test_compare(self):
        p = self.person()
        p.settings(seed="5", max_tokens="40")
        p.ask(QUESTION)
        p.wait()
        p.page.click("text=Again without drafts")
        p.page.wait_for_selector(".pair .verdict:has-text('same, character by character')")
        kept = p.chat()["messages"][1]
        self.assertEqual(kept["plain"]["text"], kept["text"])
        self.assertEqual({s[1] for s in kept["plain"]["spans"]}, {"run"})
        self.assertIn("without", p.page.inner_text(".pair .verdict"))
        self.assert_accessible(p)
        self.assert_calm(p)

    def test_schema(self):
        p = self.person()
        p.page.click("#open-settings")
        p.page.fill("#schema", "{")
        p.page.click("#settings button[type=submit]")
        self.assertTrue(p.page.locator("#settings").is_visible())  # it is no JSON
        p.settings_open(temperature="0", max_tokens="80", schema=json.dumps(SCHEMA))
        p.ask(QUESTION)
        p.wait()
        kept = p.chat()["messages"][1]
        self.assertEqual(kept["text"], self.answer_of_api(
            temperature=0, max_tokens=80, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}))
        self.assertIn(json.loads(kept["text"])["where"], SCHEMA["properties"]["where"]["enum"])
        shown = p.answers().first.locator("pre.json").inner_text()
        self.assertEqual(shown.split("\n")[1:], [f'  "where": "{json.loads(kept["text"])["where"]}",',
                                                 '  "lamps": [],', '  "on": true', "}"])
        p.page.click("text=Again without drafts")
        p.page.wait_for_selector(".pair .verdict:has-text('same, character by character')")
        self.assert_accessible(p)
        self.assert_calm(p)

    def test_calls(self):
        backend = stand_in.start(self.url)
        self.addCleanup(backend.server_close)
        self.addCleanup(backend.shutdown)
        p = self.person(backend.url)
        p.settings(functions='[{"name": "clock"}]')
        p.ask("call")
        p.wait()
        cards = p.answers().first.locator(".call")
        self.assertEqual(cards.locator("h3").all_inner_texts(), [f"Calls {stand_in.CALLED}", "Calls clock"])
        self.assertEqual(cards.first.locator("pre").inner_text(),
                         '{\n  "city": "Oslo\\", {",\n  "days": [\n    1,\n    {}\n  ]\n}')
        self.assert_accessible(p)
        p.page.reload()
        p.page.locator(".results textarea").nth(0).fill("rain")
        p.page.locator(".results textarea").nth(1).fill("end")
        p.page.click("text=Send results")
        p.page.wait_for_selector(".message.assistant >> nth=1")
        p.wait()
        self.assertEqual(p.answers().nth(1).locator(".body").inner_text(), "well")
        self.assertEqual(p.page.locator(".message.tool").count(), 2)
        first, second = backend.requests
        self.assertEqual(first["tools"], [{"type": "function", "function": {"name": "clock"}}])
        said, *results = second["messages"][1:]
        self.assertEqual(said["content"], "I look.")
        self.assertEqual(json.loads(said["tool_calls"][0]["function"]["arguments"]),
                         {"city": 'Oslo", {', "days": [1, {}]})
        self.assertEqual(results, [{"role": "tool", "tool_call_id": "call0", "content": "rain"},
                                   {"role": "tool", "tool_call_id": "call1", "content": "end"}])
        self.assertTrue(p.page.evaluate("window.harmed === undefined"))
        self.assert_accessible(p)
        self.assert_calm(p)

    def test_stop_edit_again_and_reload(self):
        p = self.person()
        p.settings(temperature="0", system="You are brief.")
        p.ask(QUESTION)
        p.page.wait_for_selector(".body .o")
        p.page.keyboard.press("Escape")
        p.wait()
        self.assertEqual(p.page.inner_text("#state"), "Stopped.")
        shown = p.answers().first.locator(".body").inner_text()
        p.page.reload()
        self.assertEqual(p.answers().first.locator(".body").inner_text(), shown)
        self.assertEqual(p.page.input_value("#system"), "")  # of a dialog that is closed
        p.page.click("#open-settings")
        self.assertEqual(p.page.input_value("#system"), "You are brief.")
        p.page.fill("#max-tokens", "8")
        p.page.click("#settings button[type=submit]")
        p.page.click("text=Edit")
        p.page.fill(".edit", "Say hello.")
        p.page.press(".edit", "Enter")
        p.page.wait_for_selector(".message.user:has-text('Say hello.')")
        p.wait()
        self.assertEqual(len(p.chat()["messages"]), 2)
        before = p.chat()["messages"][1]["how"]["seed"]
        p.answers().first.locator("button", has_text=re.compile("^Again$")).click()
        p.wait()
        self.assertNotEqual(p.chat()["messages"][1]["how"]["seed"], before)
        p.page.click("#new-chat")
        self.assertEqual(p.answers().count(), 0)
        p.page.locator(".chats .pick").first.click()
        self.assertEqual(p.answers().count(), 1)
        p.page.locator(".chats .drop").first.click()
        self.assertEqual(p.page.locator(".chats li").count(), 0)
        p.ask("Say hello.")
        p.wait()
        p.page.click("#open-settings")
        p.page.click("#forget")
        self.assertEqual(p.page.locator(".chats li").count(), 1)  # it asks first
        p.page.click("#forget")
        self.assertEqual(p.page.locator(".chats li").count(), 0)
        self.assertEqual(p.page.evaluate("Object.keys(localStorage).filter((k) => k.includes('chat.'))"), [])
        self.assert_calm(p)

    def test_server_dies_in_mid_answer(self):
        first, second = self.programs.server("first"), self.programs.server("second")
        edge = self.programs.edge("edge-of-two", [first, second])
        p = self.person(f"http://127.0.0.1:{edge.port}/")
        p.settings(temperature="0", seed="1", max_tokens="120")
        p.ask(QUESTION)
        p.page.wait_for_selector(".body .o >> nth=4")
        first.kill()
        p.wait()
        kept = p.chat()["messages"][1]
        self.assertEqual(kept["text"], self.answer_of_api(temperature=0, seed=1, max_tokens=120))
        self.assertNotIn("error", kept)
        second.kill()
        edge.kill()
        edge.wait()
        p.ask("Are you there?")
        p.page.wait_for_selector(".error:has-text('cannot be reached')")
        self.assert_calm(p, but=["ERR_CONNECTION", "net::ERR"])

    def test_key(self):
        edge = self.programs.edge("edge-with-key", [self.server], "--api-key", KEY)
        p = self.person(f"http://127.0.0.1:{edge.port}/")
        p.page.wait_for_selector("#key-why:has-text('wants an API key')")
        p.page.fill("#key", "wrong")
        p.page.keyboard.press("Enter")
        p.page.wait_for_selector("#key-why:has-text('does not know this key')")
        self.assert_accessible(p)
        p.page.fill("#key", KEY)
        p.page.keyboard.press("Enter")
        p.page.wait_for_selector("#model:not(:empty)")
        p.settings(max_tokens="5")
        p.ask("Say hello.")
        p.wait()
        self.assertNotEqual(p.chat()["messages"][1]["text"], "")
        self.assertEqual(p.page.evaluate("sessionStorage['foretoken.key']"), KEY)
        self.assertNotIn(KEY, p.page.evaluate("JSON.stringify(localStorage)"))
        self.assert_calm(p, but=["401 (Unauthorized)"])

    def test_looks(self):
        for name, how in (("light", {}), ("dark", {"color_scheme": "dark"}),
                          ("phone", {"viewport": {"width": 360, "height": 740}})):
            with self.subTest(name):
                p = self.person(**how)
                p.settings(temperature="0", max_tokens="110")
                p.ask(QUESTION)
                p.wait()
                p.page.mouse.move(1, 1)
                self.assertLessEqual(p.page.evaluate("document.documentElement.scrollWidth"),
                                     p.page.viewport_size["width"])
                self.assert_accessible(p)
                if arguments.screenshots:
                    p.page.screenshot(path=f"{arguments.screenshots}/page-{name}.png")
                if name == "phone":
                    p.page.click("#open-insight")
                    self.assert_accessible(p)
                    p.page.click("#open-side")
                    self.assert_accessible(p)
                self.assert_calm(p)

    def test_dashboard(self):
        port_file = self.programs.folder / "metrics"
        server = self.programs.start("promising", "serve", "-m", arguments.target, "--ctx-size", "1024", "--metrics", "0",
                                     "--metrics-port-file", str(port_file))
        edge = self.programs.edge("edge-with-promise", [server], "--slo", "2")
        figures = self.person(f"http://127.0.0.1:{int(port_file.read_text())}/dashboard")
        p = self.person(f"http://127.0.0.1:{edge.port}/")
        p.settings(temperature="0", max_tokens="60")
        p.ask(QUESTION)
        p.wait()
        tokens = p.chat()["messages"][1]["tokens"]
        page = figures.page
        page.wait_for_selector("#promise-rows tr")
        self.assertEqual(page.locator("#promise-rows td").first.inner_text(), "2")
        text = page.locator("#counts div", has_text="Tokens of text").locator("dd")
        expect(text).to_have_text(str(tokens), timeout=PATIENCE_MS)
        expect(page.locator(".plot .value").first).not_to_have_text("–")
        self.assert_accessible(figures)
        if arguments.screenshots:
            page.screenshot(path=f"{arguments.screenshots}/page-dashboard.png")
        figures.url = figures.url.removesuffix("dashboard")
        self.assert_calm(figures)
        server.kill()
        page.wait_for_selector("#state:has-text('cannot be read')")

    def test_harm(self):
        evil = stand_in.start(self.url)
        self.addCleanup(evil.server_close)
        self.addCleanup(evil.shutdown)
        p = self.person(evil.url)
        p.page.wait_for_selector("#model:not(:empty)")
        self.assertEqual(p.page.inner_text("#model"), stand_in.MODEL)
        for prompt in ("harm", "half", "long", "marks", "junk", "error", "end"):
            p.ask(prompt)
            p.wait()
        kept = {p.chat()["messages"][i]["text"]: p.chat()["messages"][i + 1] for i in range(0, 14, 2)}
        self.assertEqual(kept["harm"]["text"], stand_in.HARM)
        shown = p.answers().nth(0).locator(".body").text_content()
        self.assertIn("<script>window.harmed = 1</script>", shown)
        self.assertIn("[a](javascript:window.harmed=1)", shown)
        self.assertEqual(p.page.locator(".messages").locator("script, img, svg, iframe, style, base, form").count(), 0)
        self.assertEqual(p.page.eval_on_selector_all(".messages a", "all => all.map((a) => a.href)"),
                         ["http://127.0.0.1:9/x.png", "http://127.0.0.1:9/", "http://127.0.0.1:9/",
                          "https://example.org/a?b=c"])  # links alone, which nobody has followed
        p.answers().nth(0).locator(".o").first.hover()
        self.assertIn("onerror", p.page.inner_text("#tip"))
        self.assertEqual(kept["half"]["text"], "é𝄞…<\ufffd\ufffd>xxxx")
        self.assertEqual(kept["half"]["spans"][:3], [[1, "draft", 0], [3, "target", 0], [4, "run", 0]])
        self.assertEqual(kept["long"]["text"], "<b>" + "a" * 1000000)
        self.assertEqual(p.answers().nth(2).locator(".body").text_content(), kept["long"]["text"])
        self.assertTrue(kept["marks"]["text"].endswith("end"))
        self.assertIn("not JSON", kept["junk"]["error"])
        self.assertEqual(kept["junk"]["text"], "so far")
        self.assertEqual(kept["error"]["error"], "<script>window.harmed = 1</script>")
        self.assertEqual(kept["end"]["text"], "well")
        self.assertTrue(p.page.evaluate("window.harmed === undefined"))
        self.assert_calm(p)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("--screenshots")
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest, verbosity=2)
