#include "cli/cli_format.h"

#include "base/duration.h"
#include "cli/cli_lease.h"
#include "cli/lease_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- for people -------------------------------------------------------------------------------
 */

static bool is_control(const char *at) {
    unsigned char first = (unsigned char)at[0];
    /* U+0080 to U+009F are control characters too, and terminals obey some of them. */
    return first < 0x20 || first == 0x7f ||
           (first == 0xc2 && (unsigned char)at[1] >= 0x80 && (unsigned char)at[1] < 0xa0);
}

const char *cli_plain(const char *text, char room[CLI_TEXT_SIZE_MAX]) {
    size_t size = 0;
    text = text != NULL ? text : "";
    for (; *text != '\0' && size + 1 < CLI_TEXT_SIZE_MAX; text++) {
        if (is_control(text)) {
            room[size++] = '?';
            text += (unsigned char)*text == 0xc2 ? 1 : 0;
        } else {
            room[size++] = *text;
        }
    }
    room[size] = '\0';
    return room;
}

static void append(char room[CLI_TEXT_SIZE_MAX], const char *before, const char *text,
                   const char *after) {
    char plain[CLI_TEXT_SIZE_MAX];
    size_t size = strlen(room);
    snprintf(room + size, CLI_TEXT_SIZE_MAX - size, "%s%s%s", before, cli_plain(text, plain),
             after);
}

static void append_slots(char room[CLI_TEXT_SIZE_MAX], const struct lease_acquisition *acquisition,
                         const char *pool) {
    bool is_first = true;
    for (size_t i = 0; i < acquisition->n_slots; i++) {
        if (acquisition->slots[i].pool != NULL && strcmp(acquisition->slots[i].pool, pool) == 0) {
            append(room, is_first ? " (" : ",", acquisition->slots[i].slot, "");
            is_first = false;
        }
    }
    if (!is_first) {
        append(room, ")", "", "");
    }
}

const char *cli_wants(const struct lease_acquisition *acquisition, char room[CLI_TEXT_SIZE_MAX]) {
    room[0] = '\0';
    for (size_t i = 0; i < acquisition->n_wants; i++) {
        const struct lease_want *want = &acquisition->wants[i];
        const char *before = i > 0 ? ", " : "";
        if (want->resource != NULL && want->resource[0] != '\0') {
            append(room, before, want->resource, want->mode == LEASE_SHARED ? " (shared)" : "");
        } else if (want->pool != NULL) {
            char slots[32];
            snprintf(slots, sizeof slots, "=%" PRIu32, want->slots > 0 ? want->slots : 1);
            append(room, before, want->pool, slots);
            append_slots(room, acquisition, want->pool);
        }
    }
    return room;
}

const char *cli_wall_time(int64_t wall_ms, char room[CLI_WALL_SIZE_MAX]) {
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;
    if (wall_ms <= 0 || localtime_r(&seconds, &tm) == NULL ||
        strftime(room, CLI_WALL_SIZE_MAX, "%Y-%m-%d %H:%M:%S", &tm) == 0) {
        snprintf(room, CLI_WALL_SIZE_MAX, "-");
    }
    return room;
}

const char *cli_remaining(int64_t remaining_ms, char room[CLI_WALL_SIZE_MAX]) {
    char text[DURATION_TEXT_SIZE_MAX];
    if (remaining_ms < 0) {
        snprintf(room, CLI_WALL_SIZE_MAX, "-");
    } else if (remaining_ms >= 1000 && remaining_ms < 10000 && remaining_ms % 1000 >= 100) {
        snprintf(room, CLI_WALL_SIZE_MAX, "%d.%ds", (int)(remaining_ms / 1000),
                 (int)(remaining_ms % 1000 / 100));
    } else {
        /* Nobody reads milliseconds of a minute. */
        int64_t step_ms = remaining_ms >= 1000 ? 1000 : 1;
        snprintf(room, CLI_WALL_SIZE_MAX, "%s",
                 duration_format(remaining_ms / step_ms * step_ms, text));
    }
    return room;
}

/* ---- for programs -----------------------------------------------------------------------------
 */

json_t *cli_json_text(const char *text) {
    json_t *json = text != NULL ? json_string(text) : NULL;
    return json != NULL ? json : json_null();
}

json_t *cli_json_id(int64_t id) {
    char room[LEASE_ID_TEXT_SIZE_MAX];
    return json_string(lease_id_format(id, room));
}

static json_t *wants_json(const struct lease_acquisition *acquisition) {
    json_t *array = json_array();
    for (size_t i = 0; i < acquisition->n_wants; i++) {
        const struct lease_want *want = &acquisition->wants[i];
        bool is_resource = want->resource != NULL && want->resource[0] != '\0';
        json_array_append_new(
            array, is_resource
                       ? json_pack("{s:o, s:s}", "resource", cli_json_text(want->resource), "mode",
                                   want->mode == LEASE_SHARED ? "shared" : "exclusive")
                       : json_pack("{s:o, s:i}", "pool", cli_json_text(want->pool), "slots",
                                   (int)(want->slots > 0 ? want->slots : 1)));
    }
    return array;
}

static json_t *slots_json(const struct lease_acquisition *acquisition) {
    json_t *array = json_array();
    for (size_t i = 0; i < acquisition->n_slots; i++) {
        json_array_append_new(array, json_pack("{s:o, s:o}", "pool",
                                               cli_json_text(acquisition->slots[i].pool), "slot",
                                               cli_json_text(acquisition->slots[i].slot)));
    }
    return array;
}

json_t *cli_acquisition_json(const struct lease_acquisition *acquisition) {
    bool is_held = acquisition->stage == LEASE_STAGE_ACQUIRED;
    json_t *json =
        json_pack("{s:I, s:o, s:s, s:I, s:o, s:o, s:o, s:o}", "id", (json_int_t)acquisition->id,
                  "session", cli_json_id(acquisition->session_id), "state",
                  is_held ? "held" : "queued", "token", (json_int_t)acquisition->token, "owner",
                  cli_json_text(acquisition->owner), "value", cli_json_text(acquisition->value),
                  "wants", wants_json(acquisition), "slots", slots_json(acquisition));
    json_object_set_new(json, "hold_limit_ms", json_integer(acquisition->hold_limit_ms));
    json_object_set_new(json, "asked_wall_ms", json_integer(acquisition->asked_wall_ms));
    json_object_set_new(json, "acquired_wall_ms", json_integer(acquisition->acquired_wall_ms));
    return json;
}

json_t *cli_session_json(const struct lease_session_info *session) {
    json_t *json = json_pack(
        "{s:o, s:o, s:I, s:s, s:s, s:I, s:I, s:I, s:o}", "id", cli_json_id(session->id), "owner",
        cli_json_text(session->owner), "ttl_ms", (json_int_t)session->ttl_ms, "class",
        cli_class_text(session->purpose), "renewed", cli_strategy_text(session->strategy),
        "remaining_ms", (json_int_t)session->remaining_ms, "created_revision",
        (json_int_t)session->created_revision, "created_wall_ms",
        (json_int_t)session->created_wall_ms, "note", cli_json_text(session->note));
    json_object_set_new(json, "parent",
                        session->parent_id != 0 ? cli_json_id(session->parent_id) : json_null());
    return json;
}

json_t *cli_ended_json(const struct lease_ended *ended) {
    return json_pack(
        "{s:s, s:o, s:I, s:I, s:I, s:o, s:o}", "reason", lease_end_reason_text(ended->reason), "by",
        cli_json_text(ended->by), "revision", (json_int_t)ended->revision, "wall_ms",
        (json_int_t)ended->wall_ms, "last_renewal_before_ms",
        (json_int_t)ended->last_renewal_before_ms, "acquisition",
        ended->acquisition != NULL ? cli_acquisition_json(ended->acquisition) : json_null(),
        "session", ended->session != NULL ? cli_session_json(ended->session) : json_null());
}

void cli_print_json(json_t *json) {
    json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(json);
}
