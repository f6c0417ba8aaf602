/* CLIENT: what a connection says of itself, and what it is told of others. */
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_number_model.h"
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_run_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_printable(struct bytes text) {
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '!' || text.data[i] > '~') {
            return false;
        }
    }
    return true;
}

static void replace(char **text, struct bytes value) {
    free(*text);
    *text = value.size == 0 ? NULL : strndup((const char *)value.data, value.size);
}

static void set_name(struct redis_connection *connection, struct bytes name, struct buffer *out) {
    if (!is_printable(name)) {
        redis_reply_error_text(
            out, "ERR Client names cannot contain spaces, newlines or special characters.");
    } else if (name.size > REDIS_NAME_SIZE_MAX) {
        redis_reply_error_text(out, "ERR a client name has 64 bytes at most");
    } else {
        replace(&connection->name, name);
        redis_reply_ok(out);
    }
}

static void set_info(struct redis_connection *connection, struct bytes field, struct bytes value,
                     struct buffer *out) {
    char **text = redis_word_is(field, "lib-name")  ? &connection->library
                  : redis_word_is(field, "lib-ver") ? &connection->library_version
                                                    : NULL;
    if (text == NULL) {
        redis_reply_error_text(out, "ERR Unrecognized option");
    } else if (!is_printable(value) || value.size > REDIS_NAME_SIZE_MAX) {
        redis_reply_error_text(
            out, "ERR the value cannot contain spaces, newlines or special characters.");
    } else {
        replace(text, value);
        redis_reply_ok(out);
    }
}

static void describe(struct redis_connection *connection, struct buffer *text) {
    enum { LINE_SIZE_MAX = 768 };
    char line[LINE_SIZE_MAX];
    char address[NET_ADDRESS_SIZE];
    uint64_t now_ms = service_now_ms(connection->door->service);
    raw_connection_address(connection->raw, address);
    int size = snprintf(
        line, sizeof line,
        "id=%" PRIu64 " addr=%s laddr= fd=0 name=%s age=%" PRIu64 " idle=%" PRIu64
        " flags=%s db=%u sub=%zu psub=%zu ssub=%zu multi=%d cmd=%s user=%s resp=%u lib-name=%s "
        "lib-ver=%s\n",
        connection->id, address, connection->name == NULL ? "" : connection->name,
        (now_ms - connection->opened_ms) / 1000, (now_ms - connection->used_ms) / 1000,
        connection->waiter != NULL                   ? "b"
        : redis_connection_is_subscribed(connection) ? "P"
                                                     : "N",
        connection->db, connection->n_subscriptions[0], connection->n_subscriptions[1],
        connection->n_subscriptions[2],
        redis_transaction_is_open(connection) ? (int)connection->multi->n : -1,
        connection->last == NULL ? "NULL" : connection->last->name,
        connection->user[0] == 0 ? "default" : connection->user, connection->protocol,
        connection->library == NULL ? "" : connection->library,
        connection->library_version == NULL ? "" : connection->library_version);
    buffer_append(text, line, (size_t)size < sizeof line ? (size_t)size : sizeof line - 1);
}

/* With authentication on, others are shown to administrators alone. */
static bool may_see_others(struct redis_connection *connection, struct buffer *out) {
    if (service_check_admin(connection->door->service, redis_connection_caller(connection),
                            "CLIENT LIST") == STATUS_OK) {
        return true;
    }
    redis_reply_error_text(out, "NOPERM this user has no permissions to run this command");
    return false;
}

static void list_clients(struct redis_connection *connection, struct buffer *out) {
    enum { TEXT_MAX = 1024 * 1024 };
    struct buffer text;
    struct list *all = &connection->door->connections;
    if (!may_see_others(connection, out)) {
        return;
    }
    buffer_init(&text);
    for (struct list *node = all->next; node != all && text.size < TEXT_MAX; node = node->next) {
        describe(list_entry(node, struct redis_connection, link), &text);
    }
    redis_reply_verbatim(out, "txt", bytes_of(text.data, text.size));
    buffer_clear(&text);
}

static void write_own(struct redis_connection *connection, struct buffer *out) {
    struct buffer text;
    buffer_init(&text);
    describe(connection, &text);
    redis_reply_verbatim(out, "txt", bytes_of(text.data, text.size));
    buffer_clear(&text);
}

/* CLIENT KILL ID n, CLIENT KILL ADDR a, CLIENT KILL a. */
static void kill_clients(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                         struct buffer *out) {
    struct list *all = &connection->door->connections;
    bool is_by_id = argc == 4 && redis_word_is(argv[2], "id");
    bool is_by_address = argc == 3 || (argc == 4 && redis_word_is(argv[2], "addr"));
    int64_t id = 0;
    int64_t n = 0;
    if (!is_by_id && !is_by_address) {
        redis_reply_error_text(out, "ERR syntax error");
        return;
    }
    if (is_by_id && (!redis_number_integer(argv[3], &id) || id <= 0)) {
        redis_reply_error_text(out, "ERR client-id should be greater than 0");
        return;
    }
    if (!may_see_others(connection, out)) {
        return;
    }
    for (struct list *node = all->next; node != all; node = node->next) {
        struct redis_connection *other = list_entry(node, struct redis_connection, link);
        char address[NET_ADDRESS_SIZE];
        raw_connection_address(other->raw, address);
        if (is_by_id ? other->id == (uint64_t)id
                     : bytes_equal(bytes_from_text(address), argv[argc - 1])) {
            raw_connection_close(other->raw);
            n++;
        }
    }
    if (argc == 3 && n == 0) {
        redis_reply_error_text(out, "ERR No such client");
    } else if (argc == 3) {
        redis_reply_ok(out);
    } else {
        redis_reply_integer(out, n);
    }
}

/* CLIENT LEASED TOKENS ON: SET NX answers with the token as an attribute, which RESP3 has and some
 * clients do not expect. */
static void show_tokens(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                        struct buffer *out) {
    if (argc != 4 || !redis_word_is(argv[2], "tokens") ||
        (!redis_word_is(argv[3], "on") && !redis_word_is(argv[3], "off"))) {
        redis_reply_error_text(out, "ERR syntax error");
        return;
    }
    connection->shows_tokens = redis_word_is(argv[3], "on");
    redis_reply_ok(out);
}

static void set_replies(struct redis_connection *connection, struct bytes mode,
                        struct buffer *out) {
    if (redis_word_is(mode, "on")) {
        connection->replies_off = false;
        connection->skips = 0;
        redis_reply_ok(out);
    } else if (redis_word_is(mode, "off")) {
        connection->replies_off = true;
    } else if (redis_word_is(mode, "skip")) {
        connection->skips = connection->replies_off ? 0 : 1;
    } else {
        redis_reply_error_text(out, "ERR syntax error");
    }
}

static bool is_on_or_off(struct bytes word) {
    return redis_word_is(word, "on") || redis_word_is(word, "off");
}

void redis_client_run(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                      struct buffer *out) {
    struct bytes word = argv[1];
    if (argc == 2 && redis_word_is(word, "id")) {
        redis_reply_integer(out, (int64_t)connection->id);
    } else if (argc == 2 && redis_word_is(word, "getname")) {
        if (connection->name == NULL) {
            redis_reply_null(out);
        } else {
            redis_reply_bulk(out, bytes_from_text(connection->name));
        }
    } else if (argc == 3 && redis_word_is(word, "setname")) {
        set_name(connection, argv[2], out);
    } else if (argc == 4 && redis_word_is(word, "setinfo")) {
        set_info(connection, argv[2], argv[3], out);
    } else if (argc == 2 && redis_word_is(word, "info")) {
        write_own(connection, out);
    } else if (redis_word_is(word, "list")) {
        list_clients(connection, out);
    } else if (argc >= 3 && redis_word_is(word, "kill")) {
        kill_clients(connection, argv, argc, out);
    } else if (argc == 3 && redis_word_is(word, "reply")) {
        set_replies(connection, argv[2], out);
    } else if (argc == 3 && is_on_or_off(argv[2]) &&
               (redis_word_is(word, "no-evict") || redis_word_is(word, "no-touch"))) {
        redis_reply_ok(out);
    } else if (redis_word_is(word, "leased")) {
        show_tokens(connection, argv, argc, out);
    } else {
        static const char before[] = "ERR unknown subcommand '";
        static const char behind[] = "'. Try CLIENT HELP.";
        struct buffer text;
        buffer_init(&text);
        buffer_append(&text, before, sizeof before - 1);
        buffer_append(&text, word.data, word.size < 128 ? word.size : 128);
        buffer_append(&text, behind, sizeof behind - 1);
        redis_reply_error(out, bytes_of(text.data, text.size));
        buffer_clear(&text);
    }
}
