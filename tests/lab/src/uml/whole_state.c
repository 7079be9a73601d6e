/*
 * Loaded into User Mode Linux before the C library, on processors with AMX.
 *
 * User Mode Linux keeps the floating-point state of each of its processes in a buffer of its own and gives it to
 * the host with PTRACE_SETREGSET. The host takes the whole extended state only, and that of a processor with AMX is
 * longer than the buffer: the call fails with EFAULT, and the guest's first process dies ("ptrace set fp regs failed,
 * errno = 14"). Here the missing end is filled with what the host has there already. No guest uses AMX: its two
 * components are marked as unused.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Where the header of the extended state is, which begins with the set of components in use (Intel SDM 1, 13.4.2). */
#define XSTATE_HEADER 512
/* XTILECFG and XTILEDATA. */
#define XSTATE_AMX (UINT64_C(3) << 17)

/* 11 KiB with AMX. */
static unsigned char whole[1 << 16] __attribute__((aligned(64)));

static long host(long request, long pid, void *address, void *data)
{
	return syscall(SYS_ptrace, request, pid, address, data);
}

static long set_whole_state(long pid, void *kind, struct iovec *part)
{
	struct iovec all = { whole, sizeof whole };
	uint64_t used;

	if (host(PTRACE_GETREGSET, pid, kind, &all) != 0 || all.iov_len <= part->iov_len)
		return host(PTRACE_SETREGSET, pid, kind, part);
	memcpy(whole, part->iov_base, part->iov_len);
	memcpy(&used, whole + XSTATE_HEADER, sizeof used);
	used &= ~XSTATE_AMX;
	memcpy(whole + XSTATE_HEADER, &used, sizeof used);
	return host(PTRACE_SETREGSET, pid, kind, &all);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list rest;
	long pid, word;
	void *address, *data;

	va_start(rest, request);
	pid = va_arg(rest, pid_t);
	address = va_arg(rest, void *);
	data = va_arg(rest, void *);
	va_end(rest);
	switch (request) {
	case PTRACE_SETREGSET:
		if ((uintptr_t)address == NT_X86_XSTATE)
			return set_whole_state(pid, address, data);
		break;
	case PTRACE_PEEKTEXT:
	case PTRACE_PEEKDATA:
	case PTRACE_PEEKUSER:
		/* The C library returns the word; the host writes it where `data` points to. */
		if (host(request, pid, address, &word) != 0)
			return -1;
		errno = 0;
		return word;
	default:
		break;
	}
	return host(request, pid, address, data);
}
