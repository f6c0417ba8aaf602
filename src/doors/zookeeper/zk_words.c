/* Four-letter words: what operators ask with a bare connection. */
#include "doors/zookeeper/zk_connection.h"

bool zk_words_is(struct bytes word) {
    return bytes_equal(word, bytes_from_text("ruok"));
}

void zk_words_answer(struct zk_connection *connection, struct bytes word) {
    (void)word;
    raw_connection_send(connection->raw, bytes_from_text("imok"));
}
