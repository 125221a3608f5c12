#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The words of the demo: what ./demo answers is what the demo target answers as its package ships it.

    demo_words_check.py FORETOKEN DEMO.PY DRAFT

Run by ctest, with FT_TARGET (the file as shipped) and FT_DEMO_TARGET (what ./demo serves) in the
environment, as ./check sets them; without them it says SKIPPED and exits with 77. A target that was
made out of the shipped file may be fluent in other words, or in none: made into another 4-bit type
it answers the first prompt with "1. 1. 1. 1. 1.".
"""
import json
import os
import subprocess
import sys
import unittest

SKIP = 77
N_TOKENS = 48
LIMIT_S = 120
# What the file as shipped answers, greedily, to its own chat template.
SHIPPED = {
    "Name three fruits.": "1. Bananas\n2. Oranges\n3. Grapes",
    "Name the capital of Italy.": "The capital of Italy is Rome.",
}
LONG = "Why is the sky blue? Explain it to a child."


def output(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=LIMIT_S, check=True)
    return json.loads(done.stdout)


def shipped(prompt):
    return output(FORETOKEN, "run", "-m", os.environ["FT_TARGET"], "-p", prompt, "--temp", "0",
                  "-n", str(N_TOKENS), "--json")


def demo(prompt):
    return output(sys.executable, DEMO, "--binary", FORETOKEN, "--target",
                  os.environ["FT_DEMO_TARGET"], "--draft", DRAFT, "--prompt", prompt,
                  "-n", str(N_TOKENS), "--rounds", "1", "--json")


class DemoWords(unittest.TestCase):
    def test_the_target_is_as_shipped(self):
        for prompt, text in SHIPPED.items():
            self.assertEqual(shipped(prompt)["text"], text)

    def test_the_demo_says_the_same(self):
        for prompt in ("Name three fruits.", LONG):
            want, got = shipped(prompt), demo(prompt)
            self.assertEqual(got["text"], want["text"])
            self.assertEqual(got["tokens"], want["tokens"])
            self.assertTrue(got["identical"])
        self.assertEqual(want["tokens"], N_TOKENS)


if __name__ == "__main__":
    if not (os.environ.get("FT_TARGET") and os.environ.get("FT_DEMO_TARGET")):
        print("SKIPPED: FT_TARGET and FT_DEMO_TARGET are not set (./check sets them)")
        sys.exit(SKIP)
    FORETOKEN, DEMO, DRAFT = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])
