/** Uploading a file, in one request or in two phases. */
import type { Attachment, ChatKitOptions } from "@openai/chatkit";

import { type Api, Rejected } from "./api";

type Declared = Attachment & { upload_descriptor?: { url: string; method: string; headers: Record<string, string> } };

export async function upload(api: Api, options: ChatKitOptions, file: File): Promise<Attachment> {
  checkSize(options, file);
  const strategy = api.config.uploadStrategy;
  if (strategy?.type !== "direct") return uploadInTwoPhases(api, file);
  const body = new FormData();
  body.append("file", file);
  return (await api.send(strategy.uploadUrl, { method: "POST", body })).json() as Promise<Attachment>;
}

async function uploadInTwoPhases(api: Api, file: File): Promise<Attachment> {
  const params = { name: file.name, size: file.size, mime_type: file.type || "application/octet-stream" };
  const { upload_descriptor: target, ...attachment } = await api.call<Declared>("attachments.create", params);
  if (target) await api.send(target.url, { method: target.method, headers: target.headers, body: file });
  return attachment;
}

function checkSize(options: ChatKitOptions, file: File): void {
  const limit = options.composer?.attachments?.maxSize;
  if (typeof limit === "number" && file.size > limit) {
    throw new Rejected(`The file is larger than ${Math.floor(limit / 1024)} kB.`);
  }
}
