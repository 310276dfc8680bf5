import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test } from "node:test";

import { client, says } from "../support/sdk.js";
import { until } from "../support/until.js";

const EVERY_SECOND = "* * * * * *";
/** @type {string[]} */
const made = [];

/**
 * A cron that is gone when the tests are.
 *
 * @template T
 * @param {Promise<T>} creating
 * @returns {Promise<any>}
 */
async function kept(creating) {
  const cron = /** @type {any} */ (await creating);
  made.push(cron.cron_id);
  return cron;
}

after(async () => {
  for (const cronId of made) await client.crons.delete(cronId).catch(() => undefined);
});

test("a cron is made, changed, found, counted and deleted", async () => {
  const { thread_id } = await client.threads.create();
  const cron = await kept(
    client.crons.createForThread(thread_id, "chat", {
      schedule: "0 9 * * *",
      input: says("good morning"),
      metadata: { purpose: "test" },
      multitaskStrategy: "reject",
    }),
  );
  assert.equal(cron.thread_id, thread_id);
  assert.equal(cron.payload.multitask_strategy, "reject");
  assert.match(cron.next_run_date, /T09:00:00\+00:00$/);

  const changed = await client.crons.update(cron.cron_id, { schedule: "0 10 * * *", enabled: false });
  assert.match(String(changed.next_run_date), /T10:00:00\+00:00$/);
  assert.equal(changed.enabled, false);

  const found = await client.crons.search({ threadId: thread_id, enabled: false, sortBy: "next_run_date" });
  assert.deepEqual(found, [changed]);
  const selected = await client.crons.search({ threadId: thread_id, select: ["cron_id"] });
  assert.deepEqual(selected, [{ cron_id: cron.cron_id }]);
  assert.equal(await client.crons.count({ threadId: thread_id }), 1);

  await client.crons.delete(cron.cron_id);
  assert.equal(await client.crons.count({ threadId: thread_id }), 0);
});

test("a cron of a thread makes runs there", async () => {
  const { thread_id } = await client.threads.create();
  const cron = await kept(client.crons.createForThread(thread_id, "chat", { schedule: EVERY_SECOND, input: says("hi") }));

  const runs = await until("two runs are over", async () => {
    const listed = await client.runs.list(thread_id, { status: "success" });
    return listed.length >= 2 && listed;
  });
  await client.crons.delete(cron.cron_id);

  assert.equal(/** @type {any} */ (runs[0]).kwargs.config.configurable.cron_id, cron.cron_id);
});

test("a cron without a thread makes one for each run and keeps it if it is told to", async () => {
  const metadata = { mark: randomUUID() };
  const cron = await kept(
    client.crons.create("chat", { schedule: EVERY_SECOND, input: says("hi"), metadata, onRunCompleted: "keep" }),
  );
  assert.equal(cron.on_run_completed, "keep");

  await until("there are two threads", async () => (await client.threads.search({ metadata })).length >= 2);
  await client.crons.delete(cron.cron_id);
});

const refusals = [
  {
    title: "a schedule that makes no sense is refused",
    ask: () => client.crons.create("chat", { schedule: "bogus" }),
    status: 422,
    words: /^Invalid cron schedule: 'bogus'\. Reason: /,
  },
  {
    title: "a cron for an unknown graph is refused",
    ask: () => client.crons.create("nope", { schedule: "@daily" }),
    status: 404,
    words: /Assistant 'nope' not found/,
  },
  {
    title: "a cron on a thread that does not exist is refused",
    ask: () => client.crons.createForThread(randomUUID(), "chat", { schedule: "@daily" }),
    status: 404,
    words: /not found/,
  },
  {
    title: "a cron whose webhook is not allowed is refused",
    ask: () => client.crons.create("chat", { schedule: "@daily", webhook: "https://127.0.0.1/" }),
    status: 422,
    words: /Webhook host blocked/,
  },
  {
    title: "a cron that does not exist cannot be changed",
    ask: () => client.crons.update(randomUUID(), { enabled: true }),
    status: 404,
    words: /not found/,
  },
  {
    title: "a cron that does not exist cannot be deleted",
    ask: () => client.crons.delete(randomUUID()),
    status: 404,
    words: /Not Found/,
  },
  {
    title: "crons are not sorted by what they do not have",
    ask: () => client.crons.search({ sortBy: /** @type {any} */ ("luck") }),
    status: 422,
    words: /sort_by/,
  },
];

for (const { title, ask, status, words } of refusals) {
  test(title, async () => {
    await assert.rejects(ask, (/** @type {any} */ error) => {
      assert.equal(error.status, status);
      assert.match(JSON.parse(error.text).detail, words);
      return true;
    });
  });
}
