import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test } from "node:test";

import { client, userInput } from "../support/sdk.js";
import { until } from "../support/until.js";

const EVERY_SECOND = "* * * * * *";
/** @type {string[]} */
const cronIds = [];

/**
 * Wait for a cron to be created, and delete it after the tests.
 *
 * @template T
 * @param {Promise<T>} creating
 * @returns {Promise<any>}
 */
async function withCleanup(creating) {
  const cron = /** @type {any} */ (await creating);
  cronIds.push(cron.cron_id);
  return cron;
}

after(async () => {
  for (const cronId of cronIds) await client.crons.delete(cronId).catch(() => undefined);
});

test("a cron is created, updated, searched, counted and deleted", async () => {
  const { thread_id } = await client.threads.create();
  const cron = await withCleanup(
    client.crons.createForThread(thread_id, "chat", {
      schedule: "0 9 * * *",
      input: userInput("good morning"),
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

test("a cron of a thread starts runs on it", async () => {
  const { thread_id } = await client.threads.create();
  const cron = await withCleanup(
    client.crons.createForThread(thread_id, "chat", { schedule: EVERY_SECOND, input: userInput("hi") }),
  );

  const runs = await until("two runs have ended", async () => {
    const listed = await client.runs.list(thread_id, { status: "success" });
    return listed.length >= 2 && listed;
  });
  await client.crons.delete(cron.cron_id);

  assert.equal(/** @type {any} */ (runs[0]).kwargs.config.configurable.cron_id, cron.cron_id);
});

test("a cron without a thread creates one for each run and keeps it if requested", async () => {
  const metadata = { token: randomUUID() };
  const cron = await withCleanup(
    client.crons.create("chat", { schedule: EVERY_SECOND, input: userInput("hi"), metadata, onRunCompleted: "keep" }),
  );
  assert.equal(cron.on_run_completed, "keep");

  await until("two threads exist", async () => (await client.threads.search({ metadata })).length >= 2);
  await client.crons.delete(cron.cron_id);
});

const rejections = [
  {
    title: "an invalid schedule is rejected",
    request: () => client.crons.create("chat", { schedule: "bogus" }),
    status: 422,
    detail: /^Invalid cron schedule: 'bogus'\. Reason: /,
  },
  {
    title: "a cron for an unknown graph is rejected",
    request: () => client.crons.create("nope", { schedule: "@daily" }),
    status: 404,
    detail: /Assistant 'nope' not found/,
  },
  {
    title: "a cron on an unknown thread is rejected",
    request: () => client.crons.createForThread(randomUUID(), "chat", { schedule: "@daily" }),
    status: 404,
    detail: /not found/,
  },
  {
    title: "a cron with a blocked webhook is rejected",
    request: () => client.crons.create("chat", { schedule: "@daily", webhook: "https://127.0.0.1/" }),
    status: 422,
    detail: /Webhook host blocked/,
  },
  {
    title: "an unknown cron cannot be updated",
    request: () => client.crons.update(randomUUID(), { enabled: true }),
    status: 404,
    detail: /not found/,
  },
  {
    title: "an unknown cron cannot be deleted",
    request: () => client.crons.delete(randomUUID()),
    status: 404,
    detail: /Not Found/,
  },
  {
    title: "sorting crons by an unknown field is rejected",
    request: () => client.crons.search({ sortBy: /** @type {any} */ ("luck") }),
    status: 422,
    detail: /sort_by/,
  },
];

for (const { title, request, status, detail } of rejections) {
  test(title, async () => {
    await assert.rejects(request, (/** @type {any} */ error) => {
      assert.equal(error.status, status);
      assert.match(JSON.parse(error.text).detail, detail);
      return true;
    });
  });
}
