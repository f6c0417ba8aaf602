#include "base/utf8.h"

/* RFC 3629, section 4: which second byte may follow which first one. */
struct form {
    uint8_t first_min, first_max, second_min, second_max, size;
};

static const struct form *form_of(uint8_t first) {
    static const struct form forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (first >= forms[i].first_min && first <= forms[i].first_max) {
            return &forms[i];
        }
    }
    return NULL;
}

size_t utf8_long_character_size(struct bytes text) {
    const uint8_t *at = text.data;
    const struct form *form = form_of(at[0]);
    if (form == NULL || text.size < form->size || at[1] < form->second_min ||
        at[1] > form->second_max) {
        return 0;
    }
    for (size_t i = 2; i < form->size; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return form->size;
}
