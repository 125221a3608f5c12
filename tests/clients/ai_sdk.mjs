// SPDX-License-Identifier: Apache-2.0
// Vercel's AI SDK with @ai-sdk/openai-compatible, unchanged, against a server of ours.
//
//   node ai_sdk.mjs BASE_URL      BASE_URL ends in /v1
//
// The packages are looked for from the folder in AI_SDK_NODE_DIR, else from the working directory. Exit status
// 0: all held; 1: one did not; 77: they are not there.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";
import process from "node:process";

const from = path.join(process.env.AI_SDK_NODE_DIR || process.cwd(), "x.js");
const require = createRequire(pathToFileURL(from));
let ai, provider;
try {
  ai = await import(pathToFileURL(require.resolve("ai")));
  provider = await import(pathToFileURL(require.resolve("@ai-sdk/openai-compatible")));
} catch {
  console.error("ai_sdk.mjs: SKIPPED, the npm packages 'ai' and '@ai-sdk/openai-compatible' are not installed");
  process.exit(77);
}

function check(condition, what) {
  if (!condition) {
    console.error(`ai_sdk.mjs: failed: ${what}`);
    process.exit(1);
  }
}

const baseURL = process.argv[2];
const { data } = await (await fetch(`${baseURL}/models`)).json();
const ours = provider.createOpenAICompatible({ name: "foretoken", baseURL, apiKey: "any", includeUsage: true });
const ask = { model: ours(data[0].id), prompt: "Name three colours, please.", maxOutputTokens: 8, seed: 7 };
const whole = await ai.generateText(ask);
check(whole.text && whole.usage.outputTokens <= 8, "there is text, and usage");
const stream = ai.streamText(ask);
let text = "";
for await (const part of stream.textStream)
  text += part;
check(text === whole.text, "the stream says the same");
check((await stream.usage).outputTokens === whole.usage.outputTokens, "the stream has usage");
console.log("@ai-sdk/openai-compatible: passed");
