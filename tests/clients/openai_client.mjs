// SPDX-License-Identifier: Apache-2.0
// The official `openai` JavaScript client, unchanged, against a server of ours.
//
//   node openai_client.mjs BASE_URL [API_KEY]      BASE_URL ends in /v1
//
// Works against any model: checks shapes and promises, not words. The package is looked for from the
// folder in OPENAI_NODE_DIR, else from the working directory. Exit status 0: all held; 1: one did not;
// 77: the package `openai` is not there.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";
import process from "node:process";

const from = path.join(process.env.OPENAI_NODE_DIR || process.cwd(), "x.js");
const require = createRequire(pathToFileURL(from));
try {
  require.resolve("openai");
} catch {
  console.error("openai_client.mjs: SKIPPED, the npm package 'openai' is not installed");
  process.exit(77);
}
const { OpenAI } = require("openai");
const { VERSION: version } = require("openai/version");

const messages = [{ role: "user", content: "Name three colours, please." }];

function check(condition, what) {
  if (!condition) {
    console.error(`openai_client.mjs: failed: ${what}`);
    process.exit(1);
  }
}

async function raises(kind, code, call) {
  let error;
  try {
    await call();
  } catch (e) {
    error = e;
  }
  check(error instanceof kind, `${kind.name} is raised, not ${error}`);
  check(error.code === code, `${kind.name} has code ${error.code}, not ${code}`);
}

async function checkChat(client, model) {
  const ask = { model, messages, max_completion_tokens: 8, seed: 7, temperature: 0 };
  const whole = await client.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 2 });
  const choice = whole.choices[0];
  check(choice.message.role === "assistant" && choice.message.content, "chat has text");
  check(["stop", "length"].includes(choice.finish_reason), "chat has a finish_reason");
  check(whole.usage.completion_tokens > 0 && whole.usage.completion_tokens <= 8, "the limit is kept");
  check(whole.usage.foretoken.rounds >= 0, "usage.foretoken is there");
  check(choice.logprobs.content.length > 0, "logprobs are there");
  let text = "";
  let usage = null;
  const stream = await client.chat.completions.create({
    ...ask,
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    usage = chunk.usage ?? usage;
  }
  check(text === choice.message.content, "the stream says the same");
  check(usage.completion_tokens === whole.usage.completion_tokens, "the stream ends with usage");
  const helper = await client.chat.completions.stream(ask).finalContent();
  check(helper === text, "the client's stream helper says the same");
}

async function checkCompletions(client, model) {
  const ask = { model, prompt: "Once upon a time", max_tokens: 6, temperature: 0 };
  const whole = await client.completions.create({ ...ask, logprobs: 1 });
  const { text, logprobs } = whole.choices[0];
  check(whole.object === "text_completion" && text, "a completion has text");
  check(logprobs.tokens.length > 0, "logprobs are there");
  check(logprobs.tokens.length === logprobs.token_logprobs.length, "one logprob a token");
  let streamed = "";
  for await (const chunk of await client.completions.create({ ...ask, stream: true }))
    streamed += chunk.choices[0].text;
  check(streamed === text, "the stream says the same");
}

async function checkErrors(client, model) {
  const chat = (more) => () => client.chat.completions.create({ model, messages, ...more });
  await raises(OpenAI.NotFoundError, "model_not_found", chat({ model: "no-such-model" }));
  await raises(OpenAI.BadRequestError, "invalid_value", chat({ temperature: 9 }));
  await raises(OpenAI.BadRequestError, "invalid_type", chat({ messages: [] }));
  await raises(OpenAI.BadRequestError, "unsupported_parameter", chat({ verbosity: "high" }));
}

async function main() {
  const [baseURL, key] = process.argv.slice(2);
  if (!baseURL) {
    console.error("usage: node openai_client.mjs BASE_URL [API_KEY]");
    process.exit(2);
  }
  const opts = { baseURL, maxRetries: 0, timeout: 120000 };
  const client = new OpenAI({ ...opts, apiKey: key ?? "unused" });
  const models = [];
  for await (const m of await client.models.list()) models.push(m);
  check(models.length >= 1, "the model is listed by each of its names");
  const model = models[0].id;
  check((await client.models.retrieve(model)).id === model, "the model is found by its name");
  await checkChat(client, model);
  await checkCompletions(client, model);
  await checkErrors(client, model);
  if (key) {
    const wrong = new OpenAI({ ...opts, apiKey: `${key}x` });
    await raises(OpenAI.AuthenticationError, "invalid_api_key", () => wrong.models.list());
  }
  console.log(`openai_client.mjs: ok (openai ${version}, model ${model})`);
}

await main();
