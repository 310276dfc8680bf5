/** Operations of a thread, one after another (spec/timeline.md, 3.1). */

export interface ThreadActorOptions {
  /** Called when an operation fails. The operations after it are still executed. */
  onError?: (threadId: string, error: unknown) => void;
  /** Called when an operation has not finished after five seconds. It is never skipped. */
  onSlow?: (threadId: string) => void;
}

type Work = () => void | Promise<void>;

const SLOW = 5_000;

/**
 * Executes the operations of each thread in order. A synchronous operation runs immediately if none is waiting, so a
 * token costs no promise.
 */
export class ThreadActor {
  readonly #queues = new Map<string, Work[]>();
  readonly #options: ThreadActorOptions;

  constructor(options: ThreadActorOptions = {}) {
    this.#options = options;
  }

  enqueue(threadId: string, work: Work): void {
    const queue = this.#queues.get(threadId);
    if (queue) {
      queue.push(work);
      return;
    }
    this.#queues.set(threadId, [work]);
    this.#drain(threadId);
  }

  #drain(threadId: string): void {
    const queue = this.#queues.get(threadId)!;
    for (let work = queue[0]; work; queue.shift(), work = queue[0]) {
      const pending = this.#execute(threadId, work);
      if (pending) {
        const watchdog = setTimeout(() => this.#options.onSlow?.(threadId), SLOW);
        void pending.then(() => {
          clearTimeout(watchdog);
          queue.shift();
          this.#drain(threadId);
        });
        return;
      }
    }
    this.#queues.delete(threadId);
  }

  /** Start an operation. Returns a promise, which never rejects, if it is asynchronous. */
  #execute(threadId: string, work: Work): Promise<void> | undefined {
    const report = (error: unknown) => this.#options.onError?.(threadId, error);
    try {
      const pending = work();
      return pending instanceof Promise ? pending.catch(report) : undefined;
    } catch (error) {
      report(error);
      return undefined;
    }
  }
}
