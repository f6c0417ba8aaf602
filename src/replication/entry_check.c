#include "replication/entry_check.h"

#include "base/buffer.h"
#include "core/state_machine.h"
#include "replication/log_entry.h"

bool entry_check_commands(struct bytes commands, uint64_t n, size_t command_size_max,
                          bool (*is_allowed)(void *context, const struct command *command),
                          void *context, struct arena *arena) {
    struct reader reader;
    bool is_good = true;
    reader_init(&reader, commands);
    for (uint64_t i = 0; i < n && is_good; i++) {
        struct command command;
        size_t start = reader.position;
        is_good = command_decode(&reader, arena, &command) == STATUS_OK &&
                  reader.position - start <= command_size_max &&
                  (is_allowed == NULL || is_allowed(context, &command)) &&
                  command_check(&command) == STATUS_OK;
        arena_reset(arena);
    }
    return is_good && reader_left(&reader) == 0;
}

static bool is_known(void *context, const struct command *command) {
    return state_machine_knows(context, command);
}

bool entry_check_item(const struct log_item *item, const struct state_machine *machine,
                      struct arena *arena) {
    struct log_entry_header header;
    struct reader reader;
    if (item->type != LOG_COMMAND) {
        return true; /* the codec has looked at it */
    }
    if (log_entry_decode(bytes_of(item->bytes, item->size), &header, &reader) != STATUS_OK ||
        header.index != item->index) {
        return false;
    }
    struct bytes commands = bytes_of(reader.data + reader.position, reader_left(&reader));
    return entry_check_commands(commands, header.n_commands, ENTRY_COMMAND_SIZE_MAX, is_known,
                                (void *)machine, arena);
}
