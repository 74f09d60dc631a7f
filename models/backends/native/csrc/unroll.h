/* UNROLL(n) before a loop of at most n rounds writes all of them out, so that arrays which the loop indexes can lie in
   registers; ROLLED keeps a loop as it is. GCC and clang have different words for both, and ignore each other's. */
#pragma once

#define PRAGMA(words) _Pragma(#words)
#ifdef __clang__
#define UNROLL(n) PRAGMA(clang loop unroll(full))
#define ROLLED PRAGMA(clang loop unroll(disable))
#else
#define UNROLL(n) PRAGMA(GCC unroll n)
#define ROLLED PRAGMA(GCC unroll 1)
#endif
