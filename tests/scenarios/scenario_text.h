/*
 * Plays texts. A text is a row of blocks, each made of commands, a line `----`, what the commands
 * answer, and an empty line; lines that start with `#` before the commands are comments. A player
 * answers one block at a time: it gets the commands and appends its answer.
 *
 * With --rewrite before the folder the answers in the files are replaced by what was given; read
 * the difference before believing it.
 */
#ifndef LEASED_TESTS_SCENARIO_TEXT_H
#define LEASED_TESTS_SCENARIO_TEXT_H

#include "base/buffer.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCENARIO_LINES_MAX = 64 };

struct scenario_block {
    size_t n_lines;
    char *lines[SCENARIO_LINES_MAX];
};

/* A fresh state for each file. */
struct scenario_player {
    void *(*begin)(void);
    void (*play)(void *state, const struct scenario_block *block, struct buffer *answer);
    void (*end)(void *state);
};

__attribute__((format(printf, 2, 3))) static inline void scenario_print(struct buffer *buffer,
                                                                        const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof text) {
        abort();
    }
    buffer_append(buffer, text, (size_t)size);
}

static inline void scenario_die(const char *path, size_t line, const char *why) {
    fprintf(stderr, "%s:%zu: %s\n", path, line, why);
    exit(2);
}

static inline char *scenario_read(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0;
    if (file == NULL || getdelim(&text, &size, '\0', file) < 0) {
        scenario_die(path, 0, "cannot be read");
    }
    fclose(file);
    return text;
}

static inline void scenario_write(const char *path, const struct buffer *buffer) {
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(buffer->data, 1, buffer->size, file) != buffer->size ||
        fclose(file) != 0) {
        scenario_die(path, 0, "cannot be written");
    }
}

/* The next line without its end, and the text moved behind it; NULL at the end of the text. */
static inline char *scenario_line(char **text) {
    char *line = *text;
    if (*line == '\0') {
        return NULL;
    }
    char *end = strchrnul(line, '\n');
    *text = *end == '\0' ? end : end + 1;
    *end = '\0';
    return line;
}

static inline bool scenario_compare(const char *path, size_t line, const struct buffer *expected,
                                    const struct buffer *answer) {
    if (bytes_equal(bytes_of(expected->data, expected->size),
                    bytes_of(answer->data, answer->size))) {
        return true;
    }
    fprintf(stderr, "%s:%zu: expected\n%.*s%s:%zu: got\n%.*s\n", path, line, (int)expected->size,
            (const char *)expected->data, path, line, (int)answer->size,
            (const char *)answer->data);
    return false;
}

/* Plays one file; false when an answer differs. `rewritten` gets the file with its new answers. */
static inline bool scenario_play_file(const struct scenario_player *player, const char *path,
                                      struct buffer *rewritten) {
    char *whole = scenario_read(path);
    char *text = whole;
    void *state = player->begin();
    struct scenario_block block = {0};
    struct buffer expected;
    struct buffer answer;
    bool is_good = true;
    size_t line_number = 0;
    size_t n_blocks = 0;
    char *line;
    buffer_init(&expected);
    buffer_init(&answer);
    while ((line = scenario_line(&text)) != NULL) {
        line_number++;
        scenario_print(rewritten, "%s\n", line);
        if (block.n_lines == 0 && (line[0] == '#' || line[0] == '\0')) {
            continue;
        }
        if (strcmp(line, "----") != 0) {
            if (block.n_lines == SCENARIO_LINES_MAX) {
                scenario_die(path, line_number, "a block too long");
            }
            block.lines[block.n_lines++] = line;
            continue;
        }
        size_t block_line = line_number - block.n_lines;
        expected.size = answer.size = 0;
        while ((line = scenario_line(&text)) != NULL && line[0] != '\0') {
            line_number++;
            scenario_print(&expected, "%s\n", line);
        }
        line_number++;
        player->play(state, &block, &answer);
        is_good = scenario_compare(path, block_line, &expected, &answer) && is_good;
        buffer_append(rewritten, answer.data, answer.size);
        if (line != NULL) {
            buffer_append(rewritten, "\n", 1);
        }
        block.n_lines = 0;
        n_blocks++;
    }
    if (block.n_lines > 0 || n_blocks == 0) {
        scenario_die(path, line_number, "ends without an answer");
    }
    player->end(state);
    buffer_clear(&expected);
    buffer_clear(&answer);
    free(whole);
    return is_good;
}

static inline int scenario_main(int argc, char **argv, const struct scenario_player *player) {
    bool rewrite = argc == 3 && strcmp(argv[1], "--rewrite") == 0;
    if (argc != 2 && !rewrite) {
        fprintf(stderr, "usage: %s [--rewrite] FOLDER\n", argv[0]);
        return 2;
    }
    const char *folder = argv[argc - 1];
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    size_t n_played = 0;
    size_t n_failed = 0;
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        char path[4096];
        int size = snprintf(path, sizeof path, "%s/%s", folder, name);
        if (size > 4 && (size_t)size < sizeof path && strcmp(path + size - 4, ".txt") == 0) {
            struct buffer rewritten;
            buffer_init(&rewritten);
            bool is_good = scenario_play_file(player, path, &rewritten);
            if (rewrite) {
                scenario_write(path, &rewritten);
            }
            printf("%s: %s\n", name, is_good ? "ok" : rewrite ? "rewritten" : "FAILED");
            n_played++;
            n_failed += !is_good;
            buffer_clear(&rewritten);
        }
        free(entries[i]);
    }
    if (n >= 0) {
        free(entries);
    }
    if (n_played == 0) {
        fprintf(stderr, "%s holds no text, so nothing was tested\n", folder);
        return 1;
    }
    return n_failed == 0 || rewrite ? 0 : 1;
}

#endif
