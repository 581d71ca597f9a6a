// Fibers: one stack for each thread of the kernel, and a switch between them. x86-64 and AArch64
// save the callee-saved registers in a few instructions; elsewhere, or with EMU_PORTABLE, ucontext
// does it with system calls.
#pragma once
#include <sys/mman.h>
#include "emulator_core.h"

#if !defined(EMU_PORTABLE) && !(defined(__x86_64__) || defined(__aarch64__))
#define EMU_PORTABLE 1
#endif
#ifdef EMU_PORTABLE
#include <ucontext.h>
#endif
#ifdef __APPLE__
#define EMU_SYMBOL(name) "_" name
#else
#define EMU_SYMBOL(name) name
#endif

static u8* stacks = nullptr;  // all stacks, side by side; the lowest page of each is a guard
static int stack_count = 0;
static std::vector<int> free_stacks;
static void* main_context = nullptr;

static const int MOST_STACKS = 16 * MAX_THREADS + 4096;
static void open_stacks() {
  stacks = (u8*)mmap(nullptr, (size_t)MOST_STACKS * STACK, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == (u8*)MAP_FAILED) {
    perror("stacks");
    exit(3);
  }
}
static int take_stack() {
  if (!free_stacks.empty()) {
    const int s = free_stacks.back();
    free_stacks.pop_back();
    return s;
  }
  if (stack_count == MOST_STACKS) {
    fprintf(stderr, "too many resident threads\n");
    exit(3);
  }
  if (stack_count % 64 == 0)
    for (int i = stack_count; i < std::min(stack_count + 64, (int)MOST_STACKS); i++)
      mprotect(stacks + (size_t)i * STACK + 4096, STACK - 4096, PROT_READ | PROT_WRITE);
  return stack_count++;
}

static void fiber_body();

#ifdef EMU_PORTABLE
static void make_context(Thread& t) {
  auto* context = new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = stacks + (size_t)t.stack * STACK + 4096;
  context->uc_stack.ss_size = STACK - 4096;
  context->uc_link = nullptr;
  makecontext(context, fiber_body, 0);
  t.context = context;
}
static void drop_context(Thread& t) { delete (ucontext_t*)t.context; }
static void switch_context(void** from, void* to) {
  if (!*from) *from = new ucontext_t;
  swapcontext((ucontext_t*)*from, (ucontext_t*)to);
}
#else
extern "C" void emu_switch(void** save, void* to);
#ifdef __x86_64__
asm(".text\n.globl " EMU_SYMBOL("emu_switch") "\n" EMU_SYMBOL("emu_switch") ":\n"
    " pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    " movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
    " popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
enum { SAVED = 6 };
static void make_context(Thread& t) {
  u64* top = (u64*)(stacks + (size_t)(t.stack + 1) * STACK - 64);
  *--top = 0;  // return address of fiber_body, never used
  *--top = (u64)fiber_body;
  for (int i = 0; i < SAVED; i++) *--top = 0;
  t.context = top;
}
#else
asm(".text\n.globl " EMU_SYMBOL("emu_switch") "\n" EMU_SYMBOL("emu_switch") ":\n"
    " sub sp, sp, #176\n"
    " stp x19, x20, [sp]\n stp x21, x22, [sp, #16]\n"
    " stp x23, x24, [sp, #32]\n stp x25, x26, [sp, #48]\n"
    " stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n"
    " stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n"
    " stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n"
    " mov x2, sp\n str x2, [x0]\n mov sp, x1\n"
    " ldp x19, x20, [sp]\n ldp x21, x22, [sp, #16]\n"
    " ldp x23, x24, [sp, #32]\n ldp x25, x26, [sp, #48]\n"
    " ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n"
    " ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n"
    " ldp d12, d13, [sp, #128]\n ldp d14, d15, [sp, #144]\n"
    " add sp, sp, #176\n ret\n");
static void make_context(Thread& t) {
  u64* top = (u64*)(stacks + (size_t)(t.stack + 1) * STACK - 64) - 22;
  memset(top, 0, 176);
  top[11] = (u64)fiber_body;  // x30
  t.context = top;
}
#endif
static void drop_context(Thread&) {}
static void switch_context(void** from, void* to) { emu_switch(from, to); }
#endif

// to the scheduler; comes back when the scheduler picks this thread again
static void leave_fiber() { switch_context(&current->context, main_context); }
static void enter_fiber(Thread& t) {
  current = &t;
  emu_self = &t.self;
  run.switches++;
  switch_context(&main_context, t.context);
  current = nullptr;
}
