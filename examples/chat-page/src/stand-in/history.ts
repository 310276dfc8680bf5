/** The list of threads, newest first. */
import { type Api, Rejected } from "./api";
import { Store } from "./store";
import type { Page, Thread } from "./wire";

interface Listed {
  isOpen: boolean;
  isLoading: boolean;
  threads: Thread[];
  after: string | null;
  error: string | null;
}

export class History {
  readonly listed = new Store<Listed>({ isOpen: false, isLoading: false, threads: [], after: null, error: null });

  constructor(private readonly api: () => Api) {}

  async show(): Promise<void> {
    this.listed.set({ isOpen: true, isLoading: true, threads: [], after: null, error: null });
    await this.loadMore();
  }

  hide(): void {
    this.listed.set({ isOpen: false });
  }

  async loadMore(): Promise<void> {
    const { after, threads } = this.listed.get();
    try {
      const page = await this.api().call<Page<Thread>>("threads.list", { limit: 20, ...(after && { after }) });
      const next = page.has_more ? (page.after ?? null) : null;
      this.listed.set({ threads: [...threads, ...page.data], after: next, isLoading: false });
    } catch {
      this.listed.set({ isLoading: false, error: "The conversations could not be loaded." });
    }
  }

  /** Returns the thread, or null if it could not be renamed. */
  async rename(threadId: string, title: string): Promise<Thread | null> {
    const renamed = await this.#change<Thread>("threads.update", { thread_id: threadId, title });
    if (renamed === null) return null;
    this.listed.set({ threads: this.listed.get().threads.map((each) => (each.id === threadId ? renamed : each)) });
    return renamed;
  }

  /** Returns whether the thread was deleted. */
  async remove(threadId: string): Promise<boolean> {
    if ((await this.#change("threads.delete", { thread_id: threadId })) === null) return false;
    this.listed.set({ threads: this.listed.get().threads.filter(({ id }) => id !== threadId) });
    return true;
  }

  async #change<T>(type: string, params: object): Promise<T | null> {
    this.listed.set({ error: null });
    try {
      return await this.api().call<T>(type, params);
    } catch (error) {
      this.listed.set({ error: error instanceof Rejected ? error.message : "The server cannot be reached." });
      return null;
    }
  }
}
