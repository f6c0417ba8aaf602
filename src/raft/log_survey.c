#include "raft/log_survey.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char log_survey_advice[] = "Nothing was changed. Restore the data directory from a backup; "
                                 "on a member of a cluster, remove "
                                 "the member, delete its data directory and add it again.";

/* --- errors --- */

enum status log_survey_refuse(struct log_survey *survey, enum status status, const char *format,
                              ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(survey->error, survey->error_size, format, arguments);
    va_end(arguments);
    return status;
}

enum status log_survey_refuse_file(struct log_survey *survey, const char *name, int error) {
    if (error == ENOSPC) {
        return log_survey_refuse(survey, STATUS_NO_SPACE,
                                 "%s: %s. Make room on the disk and start again.", name,
                                 strerror(error));
    }
    return log_survey_refuse(
        survey, STATUS_IO,
        "%s: %s. Check the disk; if the file cannot be read any more, restore "
        "the data directory from a backup or, on a member of a cluster, remove "
        "the member, delete its data directory and add it again.",
        name, strerror(error));
}

/* --- which files there are --- */

static void add_found(void *data, const char *name) {
    struct log_survey *survey = data;
    struct log_found found = {.number = 0};
    if (!log_file_parse_name(name, &found.kind, &found.number)) {
        return;
    }
    if (survey->n_found == survey->found_capacity) {
        survey->found_capacity = survey->found_capacity == 0 ? 32 : 2 * survey->found_capacity;
        survey->found = realloc(survey->found, survey->found_capacity * sizeof *survey->found);
        if (survey->found == NULL) {
            abort();
        }
    }
    survey->found[survey->n_found++] = found;
}

static int compare_found(const void *a, const void *b) {
    const struct log_found *left = a;
    const struct log_found *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

static enum status check_header(struct log_survey *survey, struct log_found *found,
                                const char *name, const uint8_t *bytes, size_t n) {
    enum status status = log_segment_decode_header(bytes, n, &found->segment);
    if (status == STATUS_UNSUPPORTED) {
        return log_survey_refuse(
            survey, status,
            "%s was written by a newer version of leased. Nothing was changed. Start that "
            "version, or restore a backup that this one wrote.",
            name);
    }
    if (status != STATUS_OK || found->segment.generation != found->number) {
        return log_survey_refuse(survey, STATUS_CORRUPT,
                                 "%s is damaged at offset 0: its header is not valid. %s", name,
                                 log_survey_advice);
    }
    if (found->segment.size != found->size || found->size > LOG_SEGMENT_SIZE_MAX) {
        return log_survey_refuse(survey, STATUS_CORRUPT,
                                 "%s is damaged: it has %" PRIu64 " bytes instead of %" PRIu64
                                 ". %s",
                                 name, found->size, found->segment.size, log_survey_advice);
    }
    struct log_record record;
    found->has_start = log_segment_decode_start(&found->segment, bytes, n, &record, &found->start);
    return STATUS_OK;
}

static enum status look_at(struct log_survey *survey, struct log_found *found) {
    const struct raft_files_calls *calls = survey->files.calls;
    void *data = survey->files.data;
    char name[LOG_SEGMENT_NAME_SIZE];
    uint8_t bytes[LOG_SEGMENT_HEADER_SIZE + LOG_RECORD_HEAD_SIZE + LOG_START_SIZE];
    size_t n = 0;
    int file;
    log_file_name(found->kind, found->number, name);
    int error = calls->open(data, name, RAFT_FILES_READ, &file);
    if (error != 0) {
        return log_survey_refuse_file(survey, name, error);
    }
    error = calls->size(data, file, &found->size);
    if (error == 0 && log_found_is_segment(found)) {
        error = calls->read(data, file, 0, bytes, sizeof bytes, &n);
    }
    calls->close(data, file);
    if (error != 0) {
        return log_survey_refuse_file(survey, name, error);
    }
    return log_found_is_segment(found) ? check_header(survey, found, name, bytes, n) : STATUS_OK;
}

static enum status find_files(struct log_survey *survey) {
    const struct raft_files_calls *calls = survey->files.calls;
    int error = calls->list(survey->files.data, add_found, survey);
    if (error != 0) {
        return log_survey_refuse_file(survey, "the data directory", error);
    }
    if (survey->n_found > 0) {
        qsort(survey->found, survey->n_found, sizeof *survey->found, compare_found);
    }
    uint64_t size_max = 0;
    for (size_t i = 0; i < survey->n_found; i++) {
        enum status status = look_at(survey, &survey->found[i]);
        if (status != STATUS_OK) {
            return status;
        }
        if (log_found_is_segment(&survey->found[i]) && survey->found[i].size > size_max) {
            size_max = survey->found[i].size;
        }
    }
    survey->bytes = malloc(size_max + 1);
    survey->chain = malloc((survey->n_found + 1) * sizeof *survey->chain);
    if (survey->bytes == NULL || survey->chain == NULL) {
        abort();
    }
    return STATUS_OK;
}

/* --- which segments count --- */

static size_t find_segment(const struct log_survey *survey, uint64_t generation) {
    size_t position = 0;
    while (position < survey->n_found && (!log_found_is_segment(&survey->found[position]) ||
                                          survey->found[position].number != generation)) {
        position++;
    }
    return position;
}

/* From the newest one that was begun, back along the links, to where the log was trimmed. */
static enum status link_segments(struct log_survey *survey) {
    size_t position = survey->n_found;
    while (position > 0 && !survey->found[position - 1].has_start) {
        position--;
    }
    if (position == 0) {
        return STATUS_OK;
    }
    position--;
    for (;;) {
        const struct log_found *found = &survey->found[position];
        survey->chain[survey->n_chain++] = position;
        size_t previous = find_segment(survey, found->start.previous_generation);
        if (previous == survey->n_found) {
            break;
        }
        if (!survey->found[previous].has_start || previous >= position) {
            char name[LOG_SEGMENT_NAME_SIZE];
            log_segment_name(survey->found[previous].number, name);
            return log_survey_refuse(
                survey, STATUS_CORRUPT,
                "%s is damaged at offset %d: its first record is not valid. %s", name,
                LOG_SEGMENT_HEADER_SIZE, log_survey_advice);
        }
        position = previous;
    }
    for (size_t i = 0; i < survey->n_chain / 2; i++) { /* oldest first */
        size_t swap = survey->chain[i];
        survey->chain[i] = survey->chain[survey->n_chain - 1 - i];
        survey->chain[survey->n_chain - 1 - i] = swap;
    }
    return STATUS_OK;
}

enum status log_survey_load(struct log_survey *survey, const struct log_found *found) {
    const struct raft_files_calls *calls = survey->files.calls;
    char name[LOG_SEGMENT_NAME_SIZE];
    size_t n = 0;
    int file;
    log_segment_name(found->number, name);
    int error = calls->open(survey->files.data, name, RAFT_FILES_READ, &file);
    if (error == 0) {
        error = calls->read(survey->files.data, file, 0, survey->bytes, found->size, &n);
        calls->close(survey->files.data, file);
    }
    if (error == 0 && n != found->size) {
        error = EIO;
    }
    return error == 0 ? STATUS_OK : log_survey_refuse_file(survey, name, error);
}

enum status log_survey_init(struct log_survey *survey, const struct raft_files *files,
                            char *out_error, size_t error_size) {
    *survey = (struct log_survey){.files = *files, .error = out_error, .error_size = error_size};
    enum status status = find_files(survey);
    return status == STATUS_OK ? link_segments(survey) : status;
}

void log_survey_clear(struct log_survey *survey) {
    free(survey->found);
    free(survey->chain);
    free(survey->bytes);
}
