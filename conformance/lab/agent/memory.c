/* Filling and checking buffers. */
#include "verbsd.h"

#include <errno.h>
#include <string.h>

uint8_t *span(struct object *buf, uint64_t off, uint64_t len)
{
	if (off > buf->len || len > buf->len - off)
		fail(ERANGE, "%llu bytes at %llu in a buffer of %zu", (unsigned long long)len, (unsigned long long)off, buf->len);
	return (uint8_t *)buf->p + off;
}

/* The pattern: byte i of the pattern of a seed is byte i%8 (least significant first) of
 * splitmix64's output number i/8. Package peer makes the same one. */
static uint64_t pattern8(uint64_t seed, uint64_t word)
{
	uint64_t z = seed + (word + 1) * 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint8_t pattern1(uint64_t seed, uint64_t i) { return pattern8(seed, i / 8) >> 8 * (i % 8); }

static void cmd_fill(void)
{
	uint64_t len = need_num("len"), seed = need_num("seed"), base = num("base", 0), i = 0;
	uint8_t *p = span(need_obj("buf", K_BUF), num("off", 0), len);
	for (; i < len && (base + i) % 8; i++)
		p[i] = pattern1(seed, base + i);
	for (; i + 8 <= len; i += 8) {
		uint64_t w = pattern8(seed, (base + i) / 8);
		memcpy(p + i, &w, 8); /* little-endian machines only, which the guests are */
	}
	for (; i < len; i++)
		p[i] = pattern1(seed, base + i);
}

/* check answers bad=-1, or the index of the first byte that is not the pattern's. */
static void cmd_check(void)
{
	uint64_t len = need_num("len"), seed = need_num("seed"), base = num("base", 0), i = 0;
	uint8_t *p = span(need_obj("buf", K_BUF), num("off", 0), len);
	while (i < len) {
		if ((base + i) % 8 == 0 && i + 8 <= len) {
			uint64_t w = pattern8(seed, (base + i) / 8);
			if (!memcmp(p + i, &w, 8)) {
				i += 8;
				continue;
			}
		}
		if (p[i] != pattern1(seed, base + i)) {
			out(" bad=%llu got=0x%02x want=0x%02x", (unsigned long long)i, p[i], pattern1(seed, base + i));
			return;
		}
		i++;
	}
	out(" bad=-1");
}

static int hex1(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	fail(EINVAL, "not a hexadecimal digit");
}

static void cmd_write(void)
{
	const char *h = need("hex");
	size_t n = strlen(h) / 2;
	uint8_t *p = span(need_obj("buf", K_BUF), num("off", 0), n);
	for (size_t i = 0; i < n; i++)
		p[i] = hex1(h[2 * i]) << 4 | hex1(h[2 * i + 1]);
}

static void cmd_read(void)
{
	uint64_t len = need_num("len");
	uint8_t *p = span(need_obj("buf", K_BUF), num("off", 0), len);
	if (len > 65536)
		fail(EMSGSIZE, "at most 65536 bytes");
	out(" hex=");
	for (uint64_t i = 0; i < len; i++)
		out("%02x", p[i]);
}

const struct command memory_commands[] = {{"fill", cmd_fill}, {"check", cmd_check}, {"write", cmd_write}, {"read", cmd_read}, {NULL, NULL}};
