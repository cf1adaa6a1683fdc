// Prepares pasted, dropped or chosen images for sending: small enough, and as base64.

const LONGEST_EDGE = 2048;
const LARGEST = 4_000_000;
const TAKEN = /^image\/(png|jpeg|gif|webp)$/;

/** Return those files that are images. */
export const imagesAmong = (files) => [...(files ?? [])].filter((file) => file.type.startsWith("image/"));

/** Read an image file and return {media_type, data, name}, as the API expects it. */
export async function readImage(file) {
  const blob = await fitting(file);
  return { media_type: blob.type, data: await base64(blob), name: file.name || "Image" };
}

/** Return the file itself if models accept it, otherwise a copy in a smaller size or another format. */
async function fitting(file) {
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(`${file.name || "This file"} is not an image that the browser can read.`);
  });
  const edge = Math.max(bitmap.width, bitmap.height);
  if (edge <= LONGEST_EDGE && file.size <= LARGEST && TAKEN.test(file.type)) return file;
  const scale = Math.min(1, LONGEST_EDGE / edge);
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(bitmap.width * scale);
  canvas.height = Math.round(bitmap.height * scale);
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const drawn = await drawnAs(canvas, "image/png");
  return drawn.size <= LARGEST ? drawn : drawnAs(canvas, "image/jpeg");
}

function drawnAs(canvas, type) {
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The image cannot be converted."))), type, 0.9);
  });
}

function base64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error("The image cannot be read."));
    reader.readAsDataURL(blob);
  });
}
