/* The caller of an HTTP request or a gRPC call, from what it shows. */
#include "core/auth.h"
#include "net/http.h"
#include "server/authenticator_internal.h"
#include "server/password_hasher.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static_assert(sizeof(struct caller) <= NET_CALLER_SIZE_MAX, "net keeps a caller");

/* Nobody has this id: whatever it asks for is refused as a token that is not good. */
static const struct caller invalid_caller = {.user_id = UINT64_MAX};

enum {
    CREDENTIALS_SIZE_MAX = AUTH_NAME_SIZE_MAX + 1 + PASSWORD_SIZE_MAX,
    BASE64_SIZE_MAX = (CREDENTIALS_SIZE_MAX + 2) / 3 * 4
};

/* A request whose password is being verified. */
struct pending_request {
    struct list link;
    struct authenticator_login login;
    struct http_exchange *exchange;
};

/* --- What is shown. --- */

static bool take_scheme(struct bytes *value, const char *scheme) {
    size_t size = strlen(scheme);
    if (value->size <= size || value->data[size] != ' ' ||
        strncasecmp((const char *)value->data, scheme, size) != 0) {
        return false;
    }
    do {
        size++;
    } while (size < value->size && value->data[size] == ' ');
    *value = bytes_of(value->data + size, value->size - size);
    return true;
}

/* In the order in which they count; a bare authorization is what etcd's gateway sends. */
static bool find_token(const struct http_exchange *exchange, struct bytes *out_token) {
    static const char *const names[] = {"token", "x-consul-token", "x-vault-token"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (http_header(exchange, names[i], out_token)) {
            return true;
        }
    }
    const struct http_route *route = http_route_of(exchange); /* NULL: a gRPC call */
    if (route != NULL && route->takes_query_token && http_query(exchange, "token", out_token) &&
        out_token->size > 0) {
        return true;
    }
    struct bytes ignored;
    if (!http_header(exchange, "authorization", out_token)) {
        return false;
    }
    ignored = *out_token;
    return take_scheme(out_token, "Bearer") || !take_scheme(&ignored, "Basic");
}

/* Writes user and password into `memory`, which they point to. */
static bool read_basic(struct bytes text, uint8_t memory[BASE64_SIZE_MAX], struct bytes *out_name,
                       struct bytes *out_password) {
    if (text.size == 0 || text.size % 4 != 0 || text.size > BASE64_SIZE_MAX) {
        return false;
    }
    int decoded = EVP_DecodeBlock(memory, text.data, (int)text.size);
    if (decoded < 0) {
        return false;
    }
    size_t size = (size_t)decoded;
    for (size_t i = 1; i <= 2 && text.data[text.size - i] == '='; i++) {
        size--;
    }
    const uint8_t *colon = memchr(memory, ':', size);
    if (colon == NULL) {
        return false;
    }
    *out_name = bytes_of(memory, (size_t)(colon - memory));
    *out_password = bytes_of(colon + 1, size - out_name->size - 1);
    return true;
}

/* --- Passwords. --- */

static void login_done(struct authenticator_login *login, enum status status,
                       const struct caller *caller) {
    struct pending_request *pending = list_entry(login, struct pending_request, login);
    struct http_exchange *exchange = pending->exchange;
    list_remove(&pending->link);
    http_authenticated(exchange, status == STATUS_OK, caller, caller != NULL ? sizeof *caller : 0);
    free(pending);
}

static enum net_authentication log_in(struct authenticator *authenticator,
                                      struct http_exchange *exchange, struct bytes name,
                                      struct bytes password) {
    struct pending_request *pending = calloc(1, sizeof *pending);
    if (pending == NULL) {
        return NET_REFUSED;
    }
    char address[NET_ADDRESS_SIZE];
    enum status status;
    http_address(exchange, address);
    pending->exchange = exchange;
    pending->login.done = login_done;
    /* A gRPC call cannot wait. */
    if (http_route_of(exchange) == NULL ||
        !authenticator_log_in(authenticator, &pending->login, name, password, address, &status)) {
        free(pending);
        return NET_REFUSED;
    }
    list_append(&authenticator->pending, &pending->link);
    return NET_PENDING;
}

static enum net_authentication check_basic(struct authenticator *authenticator,
                                           struct http_exchange *exchange, struct bytes text,
                                           struct caller *out_caller) {
    uint8_t memory[BASE64_SIZE_MAX];
    struct bytes name;
    struct bytes password;
    enum net_authentication result = NET_REFUSED;
    *out_caller = invalid_caller;
    if (read_basic(text, memory, &name, &password)) {
        result = authenticator_knows_password(authenticator, name, password, out_caller)
                     ? NET_AUTHENTICATED
                     : log_in(authenticator, exchange, name, password);
    }
    OPENSSL_cleanse(memory, sizeof memory);
    return result;
}

/* --- As net asks. --- */

static enum net_authentication begin(void *context, struct http_exchange *exchange,
                                     void *out_caller) {
    struct authenticator *authenticator = context;
    struct bytes value;
    struct caller caller = {0};
    enum net_authentication result = NET_AUTHENTICATED;
    if (!authenticator_is_on(authenticator)) {
        return NET_AUTHENTICATED;
    }
    if (find_token(exchange, &value)) {
        if (authenticator_token(authenticator, value, &caller) != STATUS_OK) {
            caller = invalid_caller;
            result = NET_REFUSED;
        }
    } else if (http_header(exchange, "authorization", &value) && take_scheme(&value, "Basic")) {
        result = check_basic(authenticator, exchange, value, &caller);
    } else if (!authenticator_certificate(authenticator, http_identity(exchange), &caller)) {
        result = NET_REFUSED;
    }
    memcpy(out_caller, &caller, sizeof caller);
    return result;
}

static void cancel(void *context, struct http_exchange *exchange) {
    struct authenticator *authenticator = context;
    for (struct list *link = authenticator->pending.next; link != &authenticator->pending;
         link = link->next) {
        struct pending_request *pending = list_entry(link, struct pending_request, link);
        if (pending->exchange == exchange) {
            authenticator_cancel(&pending->login);
            list_remove(&pending->link);
            free(pending);
            return;
        }
    }
}

static bool certificate(void *context, const struct tls_identity *identity, void *out_caller) {
    struct caller caller = {0};
    bool is_known =
        authenticator_is_on(context) && authenticator_certificate(context, identity, &caller);
    memcpy(out_caller, &caller, sizeof caller);
    return is_known;
}

const struct net_authenticator authenticator_of_requests = {
    .begin = begin, .cancel = cancel, .certificate = certificate};
