# SPDX-License-Identifier: Apache-2.0
"""tools/distill from end to end on a tiny random target that the test writes: teach, train, grow,
export, evaluate. Needs PyTorch and gguf (tools/distill/requirements.txt); without, says so and
skips."""
import contextlib
import io
import json
import random
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools" / "distill"))
try:
    import gguf
    import numpy as np
    import torch

    import accept
    import answer
    import distill
    import evaluate
    import exclude
    import kinds
    import label
    import llama
    import prompts
    import teach
    import tokens
    import train
    import turns
    MISSING = None
except ImportError as error:
    MISSING = f"tests/tools/test_distill.py SKIPPED: {error} (tools/distill/requirements.txt)"
    print(MISSING, file=sys.stderr)

TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
            "{% endfor %}")
MERGES = ["u s", "us e", "use r", "\u0120 t", "h e", "\u0120t he"]
WIDTH, LAYERS, HEADS, KV_HEADS, FF = 48, 2, 4, 2, 64


def write_target(path, rope_divisors=None, arch="llama"):
    """A random llama with a byte-level vocabulary of 265 tokens; weights large enough to have an
    opinion. Matrices are Q8_0 where the width allows it, so that dequantizing is tested too."""
    vocab = list(tokens.byte_alphabet().values()) + [m.replace(" ", "") for m in MERGES]
    vocab += ["<|im_start|>", "<|im_end|>", "<|unused|>"]
    kinds = [1] * (len(vocab) - 3) + [3, 3, 3]
    w = gguf.GGUFWriter(path, arch)
    w.add_block_count(LAYERS)
    w.add_context_length(256)
    w.add_embedding_length(WIDTH)
    w.add_feed_forward_length(FF)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_rope_freq_base(10000.0)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(vocab)
    w.add_token_types(kinds)
    w.add_token_merges(MERGES)
    w.add_bos_token_id(len(vocab) - 3)
    w.add_eos_token_id(len(vocab) - 2)
    w.add_add_bos_token(False)
    w.add_chat_template(TEMPLATE)
    rng = np.random.default_rng(1)
    kv = KV_HEADS * WIDTH // HEADS
    shapes = {"token_embd": (len(vocab), WIDTH), "output_norm": (WIDTH,)}
    for i in range(LAYERS):
        for name, shape in {"attn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (kv, WIDTH),
                            "attn_v": (kv, WIDTH), "attn_output": (WIDTH, WIDTH),
                            "ffn_norm": (WIDTH,), "ffn_gate": (FF, WIDTH), "ffn_up": (FF, WIDTH),
                            "ffn_down": (WIDTH, FF)}.items():
            shapes[f"blk.{i}.{name}"] = shape
    for name, shape in shapes.items():
        data = rng.normal(0, 0.1 if "blk" in name else 0.3, shape).astype(np.float32)
        if len(shape) == 1:
            data = 1 + data
        if name.endswith("ffn_down"):
            kind = gguf.GGMLQuantizationType.Q8_0
            w.add_tensor(name + ".weight", gguf.quantize(data, kind), raw_dtype=kind)
        else:
            w.add_tensor(name + ".weight", data)
    if rope_divisors is not None:
        w.add_tensor("rope_freqs.weight", np.array(rope_divisors, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_lines(path, values):
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(v) + "\n" for v in values))


@unittest.skipIf(MISSING, MISSING)
class DistillTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.temporary = tempfile.TemporaryDirectory()
        cls.dir = Path(cls.temporary.name)
        cls.target = str(cls.dir / "target.gguf")
        write_target(cls.target)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def distill(self, *words):
        """Result of a command line, its printed text dropped."""
        with contextlib.redirect_stdout(io.StringIO()):
            return distill.main([str(w) for w in words])

    def test_pipeline(self):
        d = self.dir
        common = ("--target", self.target, "--length", 48, "--dtype", "f32", "--threads", 1)
        self.distill("teach", *common, "--out", d / "data", "--shards", 2, "--rows", 24)
        self.distill("teach", *common, "--out", d / "held", "--shards", 1, "--rows", 16,
                     "--seed", 9)
        data = teach.load_shards(d / "data")
        self.assertEqual([s["tokens"].shape for s in data], [(24, 48)] * 2)
        self.assertTrue((np.diff(data[0]["top_logp"].astype(np.float32), axis=-1) <= 0).all())

        shape = ("--width", 32, "--layers", 1, "--heads", 4, "--kv-heads", 2, "--ff", 48)
        run = ("--data", d / "data", "--dtype", "f32", "--batch", 12 * 48,
               "--random-candidates", 64)
        losses = self.distill("train", "--target", self.target, *shape, *run, "--out", d / "s.pt",
                              "--steps", 60)
        self.assertLess(np.mean(losses[-5:]), 0.8 * np.mean(losses[:3]))
        more = self.distill("train", "--init", d / "s.pt", "--add-layers", 1, *run, "--lr", 1e-3,
                            "--out", d / "s2.pt", "--steps", 30)
        self.assertLess(abs(more[0] - losses[-1]), 0.3)  # the new layer changed nothing at first
        self.assertLess(np.mean(more[-5:]), more[0])

        self.distill("export", "--student", d / "s2.pt", "--target", self.target,
                     "--out", d / "draft.gguf")
        trained = self.distill("evaluate", "--draft", d / "s2.pt", "--data", d / "held")
        exported = self.distill("evaluate", "--draft", d / "draft.gguf", "--data", d / "held")
        itself = self.distill("evaluate", "--draft", self.target, "--data", d / "held")
        self.assertEqual(trained["all"]["positions"], exported["all"]["positions"])
        self.assertAlmostEqual(trained["all"]["overlap"], exported["all"]["overlap"], delta=0.01)
        self.assertGreater(itself["all"]["greedy"], 0.99)
        self.assertGreater(itself["all"]["overlap"], trained["all"]["overlap"])

        reader, source = gguf.GGUFReader(d / "draft.gguf"), gguf.GGUFReader(self.target)
        names = [n for n in source.fields if n.startswith("tokenizer.")]
        self.assertGreater(len(names), 7)
        for name in names:
            self.assertEqual(reader.fields[name].contents(), source.fields[name].contents())
            self.assertEqual(reader.fields[name].types, source.fields[name].types)
        self.assertEqual({t.tensor_type.name for t in reader.tensors}, {"F16", "F32"})

    def test_rows_follow_the_template(self):
        plan = teach.Plan(distill.parser_of().parse_args(
            ["teach", "--target", self.target, "--out", "x", "--length", "80"]))
        t = plan.tokenizer
        row = teach.Row("own", plan, random.Random(3))
        a, end = t.encode("a")[0], t.special["<|im_end|>"]
        for sampled in [0] * len(plan.chat.first) + [a, a, end]:
            row.take(sampled)
        self.assertEqual(t.decode(row.tokens), "<|im_start|>user\naa<|im_end|>")
        self.assertEqual(row.given, [True] * len(plan.chat.first) + [False] * 3)
        while row.queue:
            row.take(0)
        self.assertEqual(t.decode(row.tokens), "<|im_start|>user\naa<|im_end|>\n"
                         "<|im_start|>assistant\n")
        for _ in range(teach.USER_TOKENS + 40):
            row.take(a)
        self.assertEqual(t.decode(row.tokens).count("<|im_start|>"), 2)  # answers have no limit
        self.assertIs(row.user, False)

    def test_passages(self):
        text = self.dir / "passages.txt"
        text.write_text("short\n\n" + "the word " * 30 + "\n\n" + "other words " * 20)
        self.assertEqual(len(teach.read_passages(text)), 2)
        args = ["teach", "--target", self.target, "--out", "x", "--passages", str(text)]
        plan = teach.Plan(distill.parser_of().parse_args(args))
        kinds = {r.kind for r in plan.rows(64, 2, random.Random(1))}
        self.assertEqual(kinds, {"passage", "free"})
        kinds = {r.kind for r in plan.rows(64, 1, random.Random(1))}
        self.assertEqual(kinds, {"chat", "own", "free"})

    def test_teaching_resumes(self):
        out = self.dir / "resumed"
        words = ("teach", "--target", self.target, "--out", out, "--rows", 4, "--length", 12,
                 "--dtype", "f32")
        self.distill(*words, "--shards", 2)
        before = teach.load_shards(out)
        (out / "00001.npz").unlink()
        first = (out / "00000.npz").stat().st_mtime_ns
        self.distill(*words, "--shards", 2)
        self.assertEqual((out / "00000.npz").stat().st_mtime_ns, first)
        for old, new in zip(before, teach.load_shards(out), strict=True):
            for key, value in new.items():
                np.testing.assert_array_equal(value, old[key])

    def test_cache_equals_whole_pass(self):
        model = llama.load_gguf(self.target)
        g = torch.Generator().manual_seed(1)
        ids = torch.randint(0, model.config.vocab, (3, 20), generator=g)
        cache = llama.Cache(model, 3, 20)
        steps = torch.cat([model(ids[:, i:i + 1], cache) for i in range(20)], 1)
        torch.testing.assert_close(steps, model(ids), rtol=1e-4, atol=1e-4)

    def test_rope_divisors(self):
        path = str(self.dir / "rope.gguf")
        write_target(path, [1.0, 2.0, 4.0, 4.0, 8.0, 8.0])
        plain, divided = llama.load_gguf(self.target), llama.load_gguf(path)
        ratio = plain.frequencies / divided.frequencies
        torch.testing.assert_close(ratio, torch.tensor([1.0, 2.0, 4.0, 4.0, 8.0, 8.0]))

    def test_tokenizer(self):
        t = tokens.open_tokenizer(self.target)
        text = "<|im_start|>user\nthe user's caf\u00e9 \U0001f600  12 _x\n<|im_end|>"
        ids = t.encode(text)
        self.assertEqual(t.decode(ids), text)
        self.assertEqual(ids[:2], [t.special["<|im_start|>"], t.id["user"]])
        self.assertNotIn(t.special["<|im_end|>"], t.encode(text, special=False))
        self.assertEqual(t.decode(t.encode(text, special=False)), text)
        self.assertIn(t.id["\u0120the"], t.encode("in the"))

    def test_principal_embedding(self):
        model = llama.load_gguf(self.target)
        e = model.token_embd * model.output_norm
        y = train.principal_embedding(model, 16)
        self.assertEqual(tuple(y.shape), (model.config.vocab, 16))
        self.assertAlmostEqual(float(y.std()), train.EMBEDDING_STD, places=4)
        full = train.principal_embedding(model, WIDTH)  # all directions: only turned and scaled
        gram, turned = e @ e.T, full @ full.T
        torch.testing.assert_close(gram / gram.norm(), turned / turned.norm(), rtol=1e-3, atol=1e-5)
        self.assertEqual(train.principal_embedding(model, 64).shape[1], 64)

    def test_loss_with_all_candidates_is_the_cross_entropy(self):
        model = llama.load_gguf(self.target)
        g = torch.Generator().manual_seed(2)
        ids = torch.randint(0, model.config.vocab, (2, 5), generator=g)
        logp, top = torch.topk(torch.log_softmax(model(ids) * 0.5, -1), train.LEARN_TOP)
        loss = train.loss_of(model, ids, top, logp, model.config.vocab, g)
        q = torch.log_softmax(model(ids), -1).gather(-1, top)
        expected = -(logp.exp() * q).sum() / logp.exp().sum()
        torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-4)

    def test_random_candidates_estimate_the_whole_sum(self):
        model = llama.load_gguf(self.target)
        g = torch.Generator().manual_seed(2)
        ids = torch.randint(0, model.config.vocab, (1, 2), generator=g)
        logp, top = torch.topk(torch.log_softmax(model(ids) * 0.3, -1), train.LEARN_TOP)
        top, logp = top[..., :train.CANDIDATE_TOP], logp[..., :train.CANDIDATE_TOP]
        whole = float(train.loss_of(model, ids, top, logp, model.config.vocab, g))
        some = [float(train.loss_of(model, ids, top, logp, 100, g)) for _ in range(200)]
        self.assertAlmostEqual(np.mean(some), whole, delta=0.1)

    def test_loss_counts_wanted_positions_and_its_gradient_is_that_of_the_formula(self):
        model = llama.load_gguf(self.target).requires_grad_(True)
        g = torch.Generator().manual_seed(2)
        ids = torch.randint(0, model.config.vocab, (2, 7), generator=g)
        wanted = torch.rand((2, 7), generator=g) < 0.5
        logp, top = torch.topk(torch.log_softmax(model(ids).detach() * 0.5, -1), train.LEARN_TOP)
        loss = train.loss_of(model, ids, top, logp, model.config.vocab, g, wanted, sharpen=2.0)
        loss.backward()
        mine = {n: p.grad.clone() for n, p in model.named_parameters()}
        model.zero_grad()
        q = torch.log_softmax(model(ids), -1).gather(-1, top)[wanted]
        p = torch.softmax(2 * logp[wanted], -1)
        expected = -(p * q).sum() / wanted.sum()
        expected.backward()
        torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-4)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(mine[name], parameter.grad, rtol=1e-3, atol=1e-5)

    def write_chats(self, name, answers):
        """Files of tasks and of their answers: [(id, [contents of messages], text, finish)]."""
        tasks, texts = self.dir / f"{name}.jsonl", self.dir / f"{name}-answers.jsonl"
        roles = ["user", "assistant"] * 4
        write_lines(tasks, [{"id": i, "messages": [{"role": r, "content": c}
                                                   for r, c in zip(roles, contents)]}
                            for i, contents, _, _ in answers])
        write_lines(texts, [{"id": i, "text": text, "finish": finish}
                            for i, _, text, finish in answers])
        return tasks, texts

    def test_label_answers(self):
        chats = [("qa-1-0", ["who"], "me", "stop"),
                 ("math-1-1", ["1+1", "2", "why"], "so it is", "length")]
        tasks, answers = self.write_chats("chats", chats)
        words = ("label", "--target", self.target, "--tasks", tasks, "--answers", answers,
                 "--dtype", "f32")
        self.distill(*words, "--out", self.dir / "labelled")
        shard, = teach.load_shards(self.dir / "labelled")
        t = tokens.open_tokenizer(self.target)
        first = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
        self.assertEqual([teach.KINDS[k] for k in shard["kind"]], ["qa", "math"])
        row = shard["tokens"][0].tolist()
        used = len(t.encode(f"{first[0]}who{first[1]}me<|im_end|>"))
        self.assertEqual(t.decode(row[:used]), f"{first[0]}who{first[1]}me<|im_end|>")
        chosen = np.flatnonzero(~shard["given"][0]).tolist()
        self.assertEqual(chosen, [used - 3, used - 2, used - 1])
        chosen = [i for i, g in zip(shard["tokens"][1], shard["given"][1]) if not g]
        self.assertEqual(t.decode(chosen), "2<|im_end|>so it is")
        model = llama.load_gguf(self.target)
        logits = model(torch.from_numpy(shard["tokens"]).long())
        logp, top = torch.topk(torch.log_softmax(logits, -1), teach.TOP)
        for row in range(2):
            for at in np.flatnonzero(~shard["given"][row]) - 1:
                np.testing.assert_array_equal(shard["top_id"][row, at], top[row, at])
                np.testing.assert_allclose(shard["top_logp"][row, at], logp[row, at], atol=1e-2)
        stored = shard["top_id"].any(-1)
        self.assertEqual(stored.sum(), (~shard["given"]).sum())

    def test_answers_are_the_targets_and_so_is_its_opinion(self):
        tasks, _ = self.write_chats("asked", [
            ("qa-1-0", ["who"], "", ""), ("math-1-1", ["1+1", "2", "why so?"], "", ""),
            ("qa-1-2", ["a much longer question than the others"], "", ""),
            ("qa-1-3", ["where to"], "", ""), ("qa-1-4", ["too long " * 12], "", "")])
        out = self.dir / "answered"
        words = ("answer", "--target", self.target, "--tasks", tasks, "--dtype", "f32", "--out",
                 out, "--rows", 3, "--tokens", 9, "--length", 100)
        self.distill(*words)
        model, t = llama.load_gguf(self.target), tokens.open_tokenizer(self.target)
        rows, lines = 0, {}
        for path in sorted(out.glob("*.npz")):
            shard = dict(np.load(path))
            answers = [json.loads(line) for line in
                       path.with_suffix(".jsonl").read_text().splitlines()]
            lines |= {a["id"]: a for a in answers}
            logits = model(torch.from_numpy(shard["tokens"]).long())
            logp, top = torch.topk(torch.log_softmax(logits, -1), teach.TOP)
            for row, a in enumerate(answers):
                chosen = np.flatnonzero(~shard["given"][row])
                ids = shard["tokens"][row][chosen]
                self.assertEqual(len(ids), 9 if a["finish"] == "length" else chosen[-1] -
                                 chosen[0] + 1)
                self.assertEqual(t.decode(ids).removesuffix("<|im_end|>"), a["text"])
                np.testing.assert_array_equal(top[row, chosen - 1, 0], ids)
                stored = {k: shard[k][row, chosen - 1] for k in ("top_id", "top_logp")}
                np.testing.assert_array_equal(stored["top_id"], top[row, chosen - 1])
                np.testing.assert_allclose(stored["top_logp"], logp[row, chosen - 1], atol=1e-2)
                rows += 1
        self.assertEqual((rows, set(lines)), (4, {f"{k}-1-{i}" for i, k in enumerate(
            ("qa", "math", "qa", "qa"))}))
        times = {p: p.stat().st_mtime_ns for p in out.iterdir()}
        self.distill(*words)
        self.assertEqual({p: p.stat().st_mtime_ns for p in out.iterdir()}, times)

    def test_answers_at_temperatures(self):
        asked = [(f"qa-1-{i}", ["who are you"], "", "") for i in range(40)]
        tasks, _ = self.write_chats("asked-often", asked)

        def texts(name, *more):
            out = self.dir / name
            self.distill("answer", "--target", self.target, "--tasks", tasks, "--dtype", "f32",
                         "--out", out, "--tokens", 12, *more)
            return [json.loads(line)["text"] for path in sorted(out.glob("*.jsonl"))
                    for line in path.read_text().splitlines()]
        greedy, = set(texts("greedy"))
        mixed = texts("mixed", "--temperatures", 0, 3)
        self.assertIn(mixed.count(greedy), range(8, 33))
        self.assertGreater(len(set(mixed)), 8)
        self.assertEqual(texts("again", "--temperatures", 0, 3), mixed)
        self.assertNotEqual(texts("other", "--temperatures", 0, 3, "--seed", 2), mixed)

    def test_line_separators_in_texts_end_no_line(self):
        path = self.dir / "separators.jsonl"
        path.write_text('{"text": "one\u2028two\x85three"}\n', encoding="utf-8")
        line, = prompts.lines_of(path)
        self.assertEqual(json.loads(line)["text"], "one\u2028two\x85three")
        self.assertEqual(list(exclude.texts_of(path)), ["one\u2028two\x85three"])

    def test_rows_that_have_ended_leave_the_batch(self):
        model = llama.load_gguf(self.target)
        g = torch.Generator().manual_seed(7)
        prompts = [torch.randint(0, 255, (n,), generator=g).tolist() for n in (3, 5, 5, 8, 9)]
        alone = [answer.written(model, [p], 20, {-1})[0] for p in prompts]
        ends = {alone[0][5], alone[3][9]}
        cut = []
        for p, text in zip(prompts, alone):
            stops = [i for i, token in enumerate(text) if i >= len(p) and token in ends]
            cut.append(text[:stops[0] + 1] if stops else text)
        self.assertEqual(answer.written(model, prompts, 20, ends), cut)
        self.assertLess(len(cut[0]), len(alone[0]))

    def test_turns(self):
        class Ending(tokens.Chat):  # ends are many, so that most turns end
            def __init__(self, tokenizer):
                super().__init__(tokenizer)
                self.ends = set(range(0, len(tokenizer.text), 8))
        openers, out = self.dir / "openers.txt", self.dir / "written-turns.txt"
        names = [a + b for a in "abcdefghij" for b in "klmnop"]
        openers.write_text("\n".join(["Tell us of a man", *(f"Say to me the {n}" for n in names)]))
        (self.dir / "no-man.txt").write_text("of a man")
        words = ("turns", "--target", self.target, "--out", out, "--openers", openers, "--dtype",
                 "f32", "--tokens", 30, "--count", 200, "--rows", 100, "--exclude",
                 self.dir / "no-man.txt")
        with mock.patch.object(turns, "Chat", Ending):
            self.distill(*words)
        first = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertGreater(len(first), 20)
        self.assertEqual(len(set(first)), len(first))
        self.assertEqual({t[:13] for t in first}, {"Say to me the"})
        with mock.patch.object(turns, "Chat", Ending):
            self.distill(*words, "--seed", 2)
        both = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual(both[:len(first)], first)
        self.assertGreater(len(set(both)), len(first))

    def test_attention_written_out(self):
        g = torch.Generator().manual_seed(3)
        given = torch.randn(4, 2, 3, 11, 8, generator=g).bfloat16()
        results = []
        for how in (llama.causal, lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=True)):
            q, k, v = (x.clone().requires_grad_() for x in given[:3])
            y = how(q, k, v)
            y.backward(given[3])
            results.append((y, q.grad, k.grad, v.grad))
        for mine, expected in zip(*results, strict=True):
            torch.testing.assert_close(mine, expected, rtol=0.05, atol=0.05)

    def test_top_of_blocks(self):
        g = torch.Generator().manual_seed(4)
        logits = torch.randn((5, 40 * label.BLOCK + 3), generator=g)
        values, ids = label.top_of(logits, 32)
        expected = logits.topk(32, -1)
        torch.testing.assert_close(values, expected.values)
        torch.testing.assert_close(ids, expected.indices)

    def test_training_goes_on_where_it_was_stopped(self):
        d = self.dir
        self.distill("teach", "--target", self.target, "--out", d / "go", "--shards", 1, "--rows",
                     12, "--length", 24, "--dtype", "f32")
        words = ("train", "--target", self.target, "--data", d / "go", "--dtype", "f32", "--width",
                 32, "--layers", 1, "--heads", 4, "--kv-heads", 2, "--ff", 48, "--batch", 96,
                 "--random-candidates", 64)
        whole = self.distill(*words, "--out", d / "whole.pt", "--steps", 12)

        class Stopped(Exception):
            pass
        steps, take_step = [], train.take_step

        def stop_after_five(*given):
            if len(steps) == 5:
                raise Stopped
            steps.append(take_step(*given))
            return steps[-1]
        train.take_step = stop_after_five
        try:
            with self.assertRaises(Stopped):
                self.distill(*words, "--out", d / "half.pt", "--steps", 12, "--save-every", 0)
        finally:
            train.take_step = take_step
        rest = self.distill(*words, "--out", d / "half.pt", "--steps", 12)
        np.testing.assert_allclose([float(loss) for loss in steps] + rest, whole, rtol=1e-5)

    def test_init_from_gguf(self):
        d = self.dir
        self.distill("teach", "--target", self.target, "--out", d / "own", "--shards", 1, "--rows",
                     4, "--length", 16, "--dtype", "f32")
        self.distill("train", "--init", self.target, "--data", d / "own", "--dtype", "f32", "--out",
                     d / "own.pt", "--steps", 1, "--lr", 1e-9, "--batch", 64)
        before, after = llama.load_gguf(self.target), llama.load_checkpoint(d / "own.pt")
        for (name, p), q in zip(before.named_parameters(), after.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6, msg=name)

    def test_average(self):
        first = llama.load_gguf(self.target)
        second = llama.load_gguf(self.target)
        for p in second.parameters():
            p.mul_(2)
        llama.save_checkpoint(second, self.dir / "double.pt")
        drafts = (self.target, self.dir / "double.pt", self.target)
        self.distill("average", "--drafts", *drafts, "--out", self.dir / "mean.pt")
        mean = llama.load_checkpoint(self.dir / "mean.pt")
        for p, q in zip(first.parameters(), mean.parameters(), strict=True):
            torch.testing.assert_close(q, p * 4 / 3)
        second.config.rope_base = 1.0
        llama.save_checkpoint(second, self.dir / "other.pt")
        with self.assertRaises(SystemExit) as caught:
            self.distill("average", "--drafts", self.target, self.dir / "other.pt", "--out",
                         self.dir / "none.pt")
        self.assertIn("not of the same shape", str(caught.exception.code))

    def test_excluded_texts_are_refused(self):
        path = self.dir / "excluded.jsonl"
        write_lines(path, [{"turns": [
            "Name the three largest rivers of this small country, and say why.", "Who was it?",
            "Why?"]}])
        exclusion = exclude.Exclusion([path])
        for text, refused in (("So: name THE three largest rivers of this small country!", True),
                              ("Name the three largest rivers of this big country", False),
                              ("the largest rivers", False), ("Tell me. Who was it", True),
                              ("Why?", False)):
            with self.subTest(text):
                self.assertEqual(exclusion.finds(text), refused)
        self.assertEqual(exclusion.keep(["Who was it?", "Who is it?"]), ["Who is it?"])
        self.assertEqual(exclusion.refused, 1)
        text = self.dir / "with-excluded.txt"
        asks = "It asks: Name the three largest rivers of this small country. "
        text.write_text("other words " * 20 + "\n\n" + asks * 3)
        args = ["teach", "--target", self.target, "--out", "x", "--passages", str(text),
                "--exclude", str(path)]
        self.assertEqual(len(teach.Plan(distill.parser_of().parse_args(args)).passages), 1)

    def test_prompts(self):
        d = self.dir
        passages = [f"Passage {i} says this. " * 12 for i in range(5)]
        (d / "passages.txt").write_text("\n\n".join(passages))
        (d / "german.txt").write_text("Das ist ein Satz.\nDas ist noch einer.")
        (d / "turns.txt").write_text('"How are you?"\n"Who was that man?"')
        (d / "not.jsonl").write_text('{"turns": ["Who was that man?"]}')
        words = ("prompts", "--passages", d / "passages.txt", "--sentences", d / "german.txt",
                 "--turns", d / "turns.txt", "--exclude", d / "not.jsonl", "--out",
                 d / "tasks.jsonl")
        self.distill(*words, "--count", 300)
        tasks = [json.loads(line) for line in (d / "tasks.jsonl").read_text().splitlines()]
        texts = [task["messages"][0]["content"] for task in tasks]
        self.assertEqual((len(set(texts)), len({task["id"] for task in tasks})), (300, 300))
        self.assertEqual({task["id"].split("-")[0] for task in tasks}, set(kinds.makers()))
        self.assertIn("How are you?", texts)
        self.assertNotIn("Who was that man?", texts)
        self.assertFalse([t for t in texts if "{" in t and "}" in t])
        self.assertLessEqual(set(kinds.makers()), set(teach.KINDS))
        tasks, answers = self.write_chats("first", [("qa-1-0", ["a"], "yes", "stop"),
                                                    ("qa-1-1", ["b"], "no", "length")])
        self.distill(*words[:-1], d / "more.jsonl", "--after", tasks, answers)
        task, = (json.loads(line) for line in (d / "more.jsonl").read_text().splitlines())
        self.assertEqual([m["role"] for m in task["messages"]], ["user", "assistant", "user"])
        self.assertEqual([m["content"] for m in task["messages"][:2]], ["a", "yes"])

    def test_chains(self):
        for right, counts in (([], (0, 0)), ([1, 1, 1, 1], (3, 3)), ([0, 0], (0, 3)),
                              ([1, 0, 1, 1, 0], (3, 4)), ([1], (1, 1))):
            with self.subTest(right):
                self.assertEqual(accept.chain_counts(right), counts)
        self.assertEqual(accept.chain_counts([1, 1, 1, 0, 1], depth=4), (4, 5))

    def test_acceptance_on_prompts(self):
        d = self.dir
        lines = [{"category": c, "turns": [f"{c} {i}"]} for c in "ab" for i in range(3)]
        lines.append({"category": "c", "turns": ["long " * 60]})
        write_lines(d / "prompts.jsonl", lines)
        words = ("--prompts", d / "prompts.jsonl", "--target", self.target, "--limit", 5,
                 "--tokens", 12, "--longest", 60, "--texts", d / "texts.json", "--dtype", "f32")
        itself = self.distill("evaluate", "--draft", self.target, *words)["chains"]
        self.assertEqual({k: v["texts"] for k, v in itself.items()}, {"a": 3, "b": 2, "all": 5})
        self.assertEqual(itself["all"]["acceptance"], 1.0)
        self.assertEqual(itself["all"]["greedy"], 1.0)
        model = llama.load_gguf(self.target)
        for _, start, text in json.loads((d / "texts.json").read_text()):
            logits = model(torch.tensor([text]))[0, start - 1:-1]
            self.assertEqual(logits.argmax(-1).tolist(), text[start:])

    def test_errors_say_what_is_wrong(self):
        other = str(self.dir / "other.gguf")
        write_target(other, arch="gptj")
        for words, part in (
                (("teach", "--target", other, "--out", self.dir / "e"), "architecture 'gptj'"),
                (("teach", "--target", self.target, "--out", self.dir / "e", "--length", 999),
                 "context is 256"),
                (("evaluate", "--draft", self.target, "--data", self.dir / "none"), "no shards"),
                (("export", "--student", self.dir / "none.pt", "--target", other, "--out", "x"),
                 "none.pt")):
            with self.subTest(part), self.assertRaises(SystemExit) as caught:
                self.distill(*words)
            self.assertIn(part, str(caught.exception.code))


if __name__ == "__main__":
    unittest.main()
