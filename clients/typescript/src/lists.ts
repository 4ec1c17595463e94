/** Paged lists. Iterating over a list fetches further pages as needed. */
import type { Pagination } from "./types.js";

export interface Page<Item> {
  items: Item[];
  pagination: Pagination;
  /** The cursor of the next page; undefined after the last. */
  nextQuery: Readonly<Record<string, string>> | undefined;
}

/** A list: iterate with `for await` over its items or over its `pages()`. Pages are fetched lazily. */
export class Items<Item> implements AsyncIterable<Item> {
  readonly #readPage: (query: Readonly<Record<string, string>> | undefined) => Promise<Page<Item>>;

  constructor(readPage: (query: Readonly<Record<string, string>> | undefined) => Promise<Page<Item>>) {
    this.#readPage = readPage;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    for await (const page of this.pages()) {
      yield* page.items;
    }
  }

  async *pages(): AsyncGenerator<Page<Item>, void, undefined> {
    let page = await this.#readPage(undefined);
    yield page;
    while (page.nextQuery !== undefined) {
      page = await this.#readPage(page.nextQuery);
      yield page;
    }
  }
}
