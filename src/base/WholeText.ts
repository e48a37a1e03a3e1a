/**
 * Texts that can be kept: half of a character (a lone surrogate) has no UTF-8, and another text would be kept in its place.
 * Promise: pure. Rules: G2, G6.
 */

/** With the flag `u` a pair is one code point, and only half of one matches. */
export const isWhole = (text: string): boolean => !/\p{Surrogate}/u.test(text)

/** The text with U+FFFD in the place of each half of a character, as a cut or a foreign program leaves them. */
export const madeWhole = (text: string): string => text.replaceAll(/\p{Surrogate}/gu, "\ufffd")
