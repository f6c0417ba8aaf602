/* What the server reads before it serves: its flags and variables, and the identity on disk. The
 * input is a list of words, each ended by a zero byte; the first byte says which it is. */
#include "doors/doors.h"
#include "server/identity.h"
#include "server/options.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition) {
    if (!condition) {
        abort();
    }
}

static void try_identity(const uint8_t *data, size_t size) {
    struct identity identity;
    if (identity_decode(bytes_of(data, size), &identity) == STATUS_OK) {
        char text[IDENTITY_TEXT_SIZE_MAX];
        size_t text_size = identity_encode(&identity, text);
        must(bytes_equal(bytes_of(text, text_size), bytes_of(data, size)));
    }
}

/* Copies the words; the list ends with NULL. */
static int split(const uint8_t *data, size_t size, char *memory, char **words) {
    int n = 0;
    memcpy(memory, data, size);
    memory[size] = '\0';
    for (size_t at = 0; at < size && n < WORDS_MAX; at += strlen(memory + at) + 1) {
        words[n++] = memory + at;
    }
    words[n] = NULL;
    return n;
}

static void try_options(const uint8_t *data, size_t size, bool are_flags) {
    char *memory = malloc(size + 1);
    must(memory != NULL);
    char *words[WORDS_MAX + 2] = {"leased"};
    int n = split(data, size, memory, words + 1);
    char *no_words[] = {"leased", NULL};

    struct options options;
    char error[OPTIONS_ERROR_SIZE] = "";
    enum options_result result =
        are_flags ? options_parse(&options, &all_doors, n + 1, words, no_words + 1, error)
                  : options_parse(&options, &all_doors, 1, no_words, words + 1, error);
    if (result == OPTIONS_INVALID) {
        must(error[0] != '\0');
    } else if (result == OPTIONS_RUN) {
        must(options.name[0] != '\0' && options.data_dir[0] != '\0');
        must(options.listen_client_urls.n > 0 && options.advertise_client_urls.n > 0);
        must(options.election_timeout_ms >= 5 * options.heartbeat_interval_ms);
        for (size_t i = 0; i < options.listen_client_urls.n; i++) {
            const struct url *url = &options.listen_client_urls.urls[i];
            must(options.allow_insecure || url_is_tls(url) || url_is_loopback(url));
            must(!url_is_tls(url) || options.has_client_tls);
            must(url_is_unix(url) ? url->path[0] != '\0' : url->host[0] != '\0');
        }
        for (size_t door = 0; door < all_doors.n_doors; door++) {
            const struct url_list *listen = &options.door_settings[door].listen;
            for (size_t i = 0; i < listen->n; i++) {
                must(options.allow_insecure || url_is_tls(&listen->urls[i]) ||
                     url_is_loopback(&listen->urls[i]));
            }
        }
    }
    options_clear(&options);
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    switch (data[0]) {
    case 'i':
        try_identity(data + 1, size - 1);
        break;
    case 'e':
        try_options(data + 1, size - 1, false);
        break;
    default:
        try_options(data + 1, size - 1, true);
        break;
    }
    return 0;
}
