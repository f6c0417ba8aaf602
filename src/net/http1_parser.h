/*
 * The two HTTP/1 parsers behind one set of names: llhttp, and http-parser where that is missing.
 */
#ifndef LEASED_NET_HTTP1_PARSER_H
#define LEASED_NET_HTTP1_PARSER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef HAVE_LLHTTP
#include <llhttp.h>
#define http1_parser llhttp__internal_s
#define http1_parser_settings llhttp_settings_s
/* Callbacks stop the parser with this; -1 is an error in either library. */
static inline void http1_parser_start(struct http1_parser *parser,
                                      const struct http1_parser_settings *settings) {
    llhttp_init(parser, HTTP_REQUEST, settings);
}
/* False: the bytes are not HTTP, or a callback stopped the parser. */
static inline bool http1_parser_feed(struct http1_parser *parser,
                                     const struct http1_parser_settings *settings, const char *data,
                                     size_t size) {
    (void)settings;
    return llhttp_execute(parser, data, size) == HPE_OK;
}
static inline bool http1_parser_keeps_alive(const struct http1_parser *parser) {
    return llhttp_should_keep_alive(parser) != 0;
}
#else
#include <http_parser.h>
#define http1_parser http_parser
#define http1_parser_settings http_parser_settings
static inline void http1_parser_start(struct http1_parser *parser,
                                      const struct http1_parser_settings *settings) {
    (void)settings;
    http_parser_init(parser, HTTP_REQUEST);
}
static inline bool http1_parser_feed(struct http1_parser *parser,
                                     const struct http1_parser_settings *settings, const char *data,
                                     size_t size) {
    return http_parser_execute(parser, settings, data, size) == size &&
           parser->http_errno == HPE_OK;
}
static inline bool http1_parser_keeps_alive(const struct http1_parser *parser) {
    return http_should_keep_alive(parser) != 0;
}
#endif

#endif
