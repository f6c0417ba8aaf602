/*
 * Feeds a fuzz target the files of one folder, for builds without libFuzzer: every input that once
 * mattered runs in every test run. Each file is also cut at many lengths, because a parser that
 * survives a message must survive its beginning too.
 *
 * Usage: fuzz_<name> FOLDER. Exit code 0 when every input returned; a finding aborts the process.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_SIZE_MAX (4U * 1024 * 1024)
#ifndef CUTS_PER_INPUT_MAX
#define CUTS_PER_INPUT_MAX 256U
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The copy has exactly the input's size so that a sanitizer sees a read one byte past its end. */
static void feed(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) {
        fprintf(stderr, "run_corpus: out of memory\n");
        exit(2);
    }
    if (size > 0) {
        memcpy(copy, data, size);
    }
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void feed_with_cuts(const uint8_t *data, size_t size) {
    size_t step = size / CUTS_PER_INPUT_MAX + 1;
    for (size_t length = 0; length < size; length += step) {
        feed(data, length);
    }
    feed(data, size);
}

static int feed_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "run_corpus: %s: %s\n", path, strerror(errno));
        return -1;
    }
    uint8_t *data = malloc(INPUT_SIZE_MAX + 1);
    size_t size = data != NULL ? fread(data, 1, INPUT_SIZE_MAX + 1, file) : 0;
    int failed = data == NULL || ferror(file) != 0;
    fclose(file);
    if (failed) {
        fprintf(stderr, "run_corpus: %s cannot be read\n", path);
    } else if (size > INPUT_SIZE_MAX) {
        fprintf(stderr, "run_corpus: %s is over %u bytes\n", path, INPUT_SIZE_MAX);
        failed = 1;
    } else {
        /* Named first: when the target aborts, the last line tells the input. */
        printf("%s: %zu bytes\n", path, size);
        fflush(stdout);
        feed_with_cuts(data, size);
    }
    free(data);
    return failed ? -1 : 0;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    struct dirent **entries = NULL;
    int entry_count = scandir(argv[1], &entries, NULL, alphasort);
    if (entry_count < 0) {
        fprintf(stderr, "run_corpus: %s: %s\n", argv[1], strerror(errno));
        return 2;
    }
    unsigned inputs = 0;
    unsigned failures = 0;
    for (int i = 0; i < entry_count; i++) {
        char path[4096];
        int length = snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        struct stat info;
        if (length < 0 || (size_t)length >= sizeof path || stat(path, &info) != 0) {
            fprintf(stderr, "run_corpus: %s: not usable\n", entries[i]->d_name);
            failures++;
        } else if (S_ISREG(info.st_mode)) {
            inputs++;
            failures += feed_file(path) != 0;
        }
        free(entries[i]);
    }
    free(entries);
    printf("%u inputs, %u failures\n", inputs, failures);
    if (inputs == 0) {
        fprintf(stderr, "run_corpus: %s holds no input, so nothing was tested\n", argv[1]);
        return 1;
    }
    return failures == 0 ? 0 : 1;
}
