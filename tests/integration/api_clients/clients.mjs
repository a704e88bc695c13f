// Uses the API server with one client library in its default mode: node clients.mjs CLIENT URL KEY
// Prints one JSON object with a value for each scenario.
import OpenAI from "openai";
import { Agent, run, setDefaultOpenAIClient, setTracingDisabled } from "@openai/agents";
import { generateText, streamText } from "ai";
import { createOpenAI } from "@ai-sdk/openai";

const [client, baseURL, apiKey] = process.argv.slice(2);
const openai = new OpenAI({ baseURL, apiKey });

async function join(pieces) {
  let text = "";
  for await (const piece of pieces) text += piece;
  return text;
}

async function useOpenAI() {
  const whole = await openai.responses.create({ model: "hermes", input: "use a tool" });
  const stream = openai.responses.stream({ model: "hermes", input: "use a tool" });
  const kinds = new Set();
  for await (const event of stream) kinds.add(event.type);
  const previous_response_id = whole.id;
  const next = await openai.responses.create({ model: "hermes", input: "second", previous_response_id });
  const final = await stream.finalResponse();
  const [first, second] = ["use a tool", "second"].map((content) => ({ role: "user", content }));
  const input = [first, ...final.output, second];
  const resent = await openai.responses.create({ model: "hermes", input });
  const tool = { name: "todo", parameters: {}, parse: JSON.parse, function: () => "run by the client" };
  const chat = { model: "hermes", messages: [{ role: "user", content: "use a tool" }] };
  const runner = openai.chat.completions.runTools({ ...chat, tools: [{ type: "function", function: tool }] });
  const held = { model: "hermes", messages: [{ role: "user", content: "hold still" }], stream: true };
  const chunks = await openai.chat.completions.create(held);
  for await (const chunk of chunks) if (chunk.choices[0]?.delta.content) break; // closes the connection
  return {
    items: whole.output.map((item) => item.type),
    output: whole.output[1].output,
    streamed: final.output_text,
    called: kinds.has("response.mcp_call.completed"),
    next: next.output_text,
    sameSession: [
      next.hermes.session_id === whole.hermes.session_id,
      resent.hermes.session_id === final.hermes.session_id,
    ],
    chat: await runner.finalContent(),
  };
}

async function useAgents() {
  setTracingDisabled(true);
  setDefaultOpenAIClient(openai);
  const agent = new Agent({ name: "client", instructions: "Be brief." });
  const first = await run(agent, "use a tool");
  const stream = await run(agent, "use a tool", { stream: true });
  const streamed = await join(stream.toTextStream());
  await stream.completed;
  const second = await run(agent, [...first.history, { role: "user", content: "second" }]);
  const third = await run(agent, "third", { previousResponseId: second.lastResponseId });
  const controller = new AbortController();
  const held = await run(agent, "hold still", { stream: true, signal: controller.signal });
  for await (const _piece of held.toTextStream()) controller.abort();
  const session = (result) => result.rawResponses[0].providerData.hermes.session_id;
  return {
    items: first.newItems.map((item) => item.type),
    first: first.finalOutput,
    streamed,
    next: [second.finalOutput, third.finalOutput],
    sameSession: [second, third].map((each) => session(each) === session(first)),
  };
}

async function useAI() {
  const provider = createOpenAI({ baseURL, apiKey });
  const found = {};
  for (const [name, model] of [["responses", provider("hermes")], ["chat", provider.chat("hermes")]]) {
    const messages = [{ role: "user", content: "use a tool" }];
    const first = await generateText({ model, messages });
    messages.push(...first.response.messages, { role: "user", content: "second" });
    const stream = streamText({ model, prompt: "use a tool" });
    const controller = new AbortController();
    const held = streamText({ model, prompt: "hold still", abortSignal: controller.signal });
    for await (const part of held.fullStream) if (part.type === "text-delta") controller.abort();
    found[name] = {
      first: [first.text, first.finishReason, first.steps.length],
      calls: first.toolCalls.map((call) => [call.toolName, call.providerExecuted]),
      results: first.toolResults.map((result) => result.output.output),
      streamed: [await join(stream.textStream), await stream.finishReason],
      next: (await generateText({ model, messages })).text,
    };
  }
  return found;
}

const use = { openai: useOpenAI, agents: useAgents, ai: useAI }[client];
console.log(JSON.stringify(await use()));
