// The set of objects that exist, so that a call with one that was destroyed, or never was, is told so.
#include "cm.h"

pthread_mutex_t cm_lock = PTHREAD_MUTEX_INITIALIZER;

// A hash table with open addressing, at most half full.
static struct {
	const void **slots;
	size_t size, used; // size is a power of 2
} live;

static size_t place(const void *object)
{
	uint64_t h = (uintptr_t)object * UINT64_C(0x9E3779B97F4A7C15);
	return (size_t)(h >> 20) & (live.size - 1);
}

static void insert(const void *object)
{
	size_t i = place(object);
	while (live.slots[i])
		i = (i + 1) & (live.size - 1);
	live.slots[i] = object;
}

static int grow(void)
{
	const void **old = live.slots;
	size_t n = live.size;
	const void **slots = calloc(n ? 2 * n : 64, sizeof *slots);
	if (!slots)
		return ENOMEM;
	live.slots = slots;
	live.size = n ? 2 * n : 64;
	for (size_t i = 0; i < n; i++)
		if (old[i])
			insert(old[i]);
	free(old);
	return 0;
}

int cm_live_add(const void *object)
{
	if (2 * (live.used + 1) > live.size && grow())
		return ENOMEM;
	insert(object);
	live.used++;
	return 0;
}

bool cm_live_has(const void *object)
{
	if (!object || !live.size)
		return false;
	for (size_t i = place(object); live.slots[i]; i = (i + 1) & (live.size - 1))
		if (live.slots[i] == object)
			return true;
	return false;
}

void cm_live_remove(const void *object)
{
	if (!cm_live_has(object))
		return;
	size_t i = place(object);
	while (live.slots[i] != object)
		i = (i + 1) & (live.size - 1);
	live.slots[i] = NULL;
	live.used--;
	// Those behind it may have been put there because its place was taken.
	for (i = (i + 1) & (live.size - 1); live.slots[i]; i = (i + 1) & (live.size - 1)) {
		const void *moved = live.slots[i];
		live.slots[i] = NULL;
		insert(moved);
	}
}

bool cm_live(const void *object)
{
	pthread_mutex_lock(&cm_lock);
	bool has = cm_live_has(object);
	pthread_mutex_unlock(&cm_lock);
	return has;
}
