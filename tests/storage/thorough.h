/*
 * How often something random is tried, at each point or in all. The plain build tries it as often
 * as is said; under a sanitizer, which looks for other mistakes and takes many times as long, a
 * twelfth of it. Points themselves are never left out.
 */
#ifndef LEASED_TESTS_STORAGE_THOROUGH_H
#define LEASED_TESTS_STORAGE_THOROUGH_H

#if defined(__SANITIZE_ADDRESS__)
#define THOROUGH_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define THOROUGH_IS_SANITIZED 1
#endif
#endif

#ifdef THOROUGH_IS_SANITIZED
#define THOROUGH(n) ((n) >= 24 ? (n) / 12 : 2)
#else
#define THOROUGH(n) (n)
#endif

#endif
