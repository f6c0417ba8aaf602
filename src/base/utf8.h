/*
 * UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
 */
#ifndef LEASED_BASE_UTF8_H
#define LEASED_BASE_UTF8_H

#include "base/bytes.h"

/* The same of a character that is not ASCII. */
size_t utf8_long_character_size(struct bytes text);

/* How many bytes the character at the front of a text takes, 1 to 4. 0: there is none, or not all
 * of it. The text must not be empty. */
static inline size_t utf8_character_size(struct bytes text) {
    return text.data[0] < 0x80 ? 1 : utf8_long_character_size(text);
}

#endif
