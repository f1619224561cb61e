/* A plugin for QEMU's user-mode emulator. It counts the instructions, branches, loads and stores of each thread of the
 * emulated program in memory that the thread itself maps, so the thread reads a count by one load.
 *
 * `perfmark run --emulate` compiles it with `cc`. It declares what it uses of qemu-plugin.h, so that no header is
 * needed. These declarations are the same in QEMU 7.2 (interface 1) and in QEMU 9 and 10 (interfaces 2 to 5).
 *
 * QEMU translates a block of instructions once, and executes the translation many times. A block's instructions are
 * added to the count when the block begins. A thread that reads its count therefore sees all instructions up to the end
 * of the block that contains the load. The difference of two readings by the same code is exact. (A block that a fault
 * interrupts counts as a complete one.)
 *
 * From interface 2 on, QEMU can also count without a call for each block. It keeps such counts in an array of its own,
 * which moves when threads start, so a program cannot map it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PUBLIC __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
enum { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
                                      void (*)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *), int,
                                      enum qemu_plugin_mem_rw, void *);
void qemu_plugin_reset(qemu_plugin_id_t, void (*)(qemu_plugin_id_t));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);
void qemu_plugin_register_vcpu_exit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, unsigned));
void qemu_plugin_register_vcpu_syscall_cb(
    qemu_plugin_id_t,
    void (*)(qemu_plugin_id_t, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
             uint64_t));
struct qemu_info {
    const char *target_name;
};
/* Exists from interface 2 on. */
extern void qemu_plugin_scoreboard_new(void) __attribute__((weak));

/* QEMU reads it after it has loaded the plugin, and refuses a plugin that is older than its oldest interface. */
PUBLIC int qemu_plugin_version = 1;
__attribute__((constructor)) static void choose_interface(void) {
    if (qemu_plugin_scoreboard_new)
        qemu_plugin_version = 2;
}

/* The request of perfmark-rdpmc (`sys/linux/emulated.rs`): these arguments of a system call that has none, and a
 * descriptor of a page. */
#define REQUEST_0 UINT64_C(0x6b72616d66726570)
#define REQUEST_1 UINT64_C(0x736e6f6974637572)
enum { INSTRUCTIONS, BRANCHES, LOADS, STORES, EVENTS };
struct page {
    /* LAYOUT, once the plugin has answered. */
    uint64_t layout;
    uint64_t counts[EVENTS];
    /* The number of owners in the program. While there is one, the thread keeps its page. */
    uint64_t owners;
    /* Where the program has mapped it. */
    uint64_t address;
    /* Which events the program needs: those up to this one, but loads with stores. */
    uint64_t needed;
    char emulator[64];
};
enum { LAYOUT = 1, PAGE_BYTES = 4096, LONGEST_INSTRUCTION = 15 };

static char emulator[sizeof((struct page *)0)->emulator];

/* The number of madvise(2) in the program, and what to add to an address of the program to get one of the emulator. */
static int64_t madvise_number;
static _Atomic uint64_t guest_base;

/* QEMU's user-mode emulator executes each thread of the program in a thread of its own. */
#define OF_THREAD __thread __attribute__((tls_model("initial-exec")))
static OF_THREAD struct page *page;
static OF_THREAD uint64_t unread[EVENTS];
static uint64_t *counts(void) { return page ? page->counts : unread; }

/* Which events have been needed so far. Branches take time at each block, loads and stores at each access. */
static _Atomic uint64_t needed = INSTRUCTIONS;

/* Arm Architecture Reference Manual, C4.1.93 "Branches, Exception Generating and System instructions". */
static int is_branch_aarch64(const uint8_t *code) {
    uint32_t word;
    memcpy(&word, code, sizeof word);
    return (word & 0x7c000000) == 0x14000000     /* b, bl */
           || (word & 0xfe000000) == 0x54000000  /* b.cond */
           || (word & 0x7c000000) == 0x34000000  /* cbz, cbnz, tbz, tbnz */
           || (word & 0xfe000000) == 0xd6000000; /* br, blr, ret */
}

/* RISC-V Unprivileged ISA, "RV32/64G Instruction Set Listings" and "RVC Instruction Set Listings". */
static int is_branch_riscv64(const uint8_t *code) {
    unsigned low = code[0] | code[1] << 8, opcode = low & 0x7f;
    if ((low & 3) == 3)
        return opcode == 0x63 || opcode == 0x67 || opcode == 0x6f; /* conditional, jalr, jal */
    if ((low & 3) == 1)
        return low >> 13 >= 5;                                            /* c.j, c.beqz, c.bnez */
    return (low & 0xe07f) == 0x8002 && low != 0x8002 && low != 0x9002;    /* c.jr, c.jalr; not c.ebreak */
}

/* Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, appendix A, "Opcode Map". */
static int is_branch_x86_64(const uint8_t *code) {
    /* Prefixes. */
    while (memchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3", *code, 11) || (*code & 0xf0) == 0x40)
        code++;
    uint8_t next = code[1], extension = next >> 3 & 7;
    switch (*code) {
    case 0x70 ... 0x7f:              /* jcc */
    case 0xe0 ... 0xe3:              /* loop, jrcxz */
    case 0xe8: case 0xe9: case 0xeb: /* call, jmp */
    case 0xc2: case 0xc3:            /* ret */
    case 0xca: case 0xcb: case 0xcf: /* far ret, iret */
        return 1;
    case 0x0f:
        return (next & 0xf0) == 0x80; /* jcc */
    case 0xff:
        return extension >= 2 && extension <= 5; /* call, jmp */
    default:
        return 0;
    }
}

static int (*is_branch)(const uint8_t *code);

static void execute(unsigned cpu, void *instructions) {
    (void)cpu;
    counts()[INSTRUCTIONS] += (uint32_t)(uintptr_t)instructions;
}

/* Instructions are in the lower half, branches in the upper one. */
static void execute_with_branches(unsigned cpu, void *both) {
    (void)cpu;
    uint64_t *own = counts();
    own[INSTRUCTIONS] += (uint32_t)(uintptr_t)both;
    own[BRANCHES] += (uintptr_t)both >> 32;
}

/* The upper half of `info` has one of the values of qemu_plugin_mem_rw (make_plugin_meminfo in include/qemu/plugin.h,
 * QEMU 7.2 to 10). The interface only has a function for stores, and an atomic instruction is both in one call. Separate
 * callbacks for loads and stores are called for wrong accesses in QEMU 7.2. */
static void access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *unused) {
    (void)cpu, (void)address, (void)unused;
    uint64_t *own = counts();
    own[LOADS] += (info >> 16 & QEMU_PLUGIN_MEM_R) != 0;
    own[STORES] += (info >> 16 & QEMU_PLUGIN_MEM_W) != 0;
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    const struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(block, 0);
    uintptr_t in_emulator = (uintptr_t)qemu_plugin_insn_haddr(first);
    /* Unknown for instructions that are not in memory, as of the page vsyscall. */
    if (in_emulator)
        guest_base = in_emulator - qemu_plugin_insn_vaddr(first);
    size_t instructions = qemu_plugin_tb_n_insns(block);
    void (*execution)(unsigned, void *) = needed >= BRANCHES ? execute_with_branches : execute;
    uintptr_t in_block = 0;
    for (size_t i = 0; i < instructions; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        uint64_t address = qemu_plugin_insn_vaddr(instruction);
        const uint8_t *code = (const uint8_t *)(uintptr_t)(address + guest_base);
        uintptr_t this = 1 | (uintptr_t)(in_emulator && is_branch(code)) << 32;
        /* QEMU removes an instruction that continues on the next page, and begins the next block with it, but still
         * lists it here. So it is counted when it is executed. */
        if (i > 0 && i == instructions - 1 && address % PAGE_BYTES > PAGE_BYTES - LONGEST_INSTRUCTION)
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, execution, QEMU_PLUGIN_CB_NO_REGS, (void *)this);
        else
            in_block += this;
        if (needed >= LOADS)
            qemu_plugin_register_vcpu_mem_cb(instruction, access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
    }
    qemu_plugin_register_vcpu_tb_exec_cb(block, execution, QEMU_PLUGIN_CB_NO_REGS, (void *)in_block);
}

static void register_callbacks(qemu_plugin_id_t id);

static void stop_counting(void) {
    if (page)
        munmap(page, PAGE_BYTES);
    page = NULL;
}

static void begin_system_call(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t one, uint64_t two,
                              uint64_t three, uint64_t four, uint64_t five, uint64_t six, uint64_t seven,
                              uint64_t eight) {
    (void)cpu, (void)four, (void)five, (void)six, (void)seven, (void)eight;
    /* QEMU 7.2 ignores this request, by which perfmark notices a fork. */
    if (number == madvise_number && three == MADV_WIPEONFORK)
        madvise((void *)(uintptr_t)(one + guest_base), two, MADV_WIPEONFORK);
    if (one != REQUEST_0 || two != REQUEST_1)
        return;
    /* The program's descriptors are the emulator's. */
    struct page *mapped = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)three, 0);
    if (mapped == MAP_FAILED)
        return;
    mapped->layout = LAYOUT;
    memcpy(mapped->emulator, emulator, sizeof emulator);
    /* From the next block on, code is translated again. QEMU 8.2 and 9.2 would never release a mutex, so that no thread
     * could start (plugin_reset_destroy in plugins/loader.c). The program sees that the event is not counted. */
    int can_reset = strncmp(emulator, "QEMU 8.", 7) != 0 && strncmp(emulator, "QEMU 9.", 7) != 0;
    if (mapped->needed > needed && can_reset) {
        needed = mapped->needed;
        qemu_plugin_reset(id, register_callbacks);
    }
    if (page && page->owners) {
        mapped->address = page->address;
        munmap(mapped, PAGE_BYTES);
    } else {
        stop_counting();
        page = mapped;
    }
}

static void end_thread(qemu_plugin_id_t id, unsigned cpu) {
    (void)id, (void)cpu;
    stop_counting();
}

static void register_callbacks(qemu_plugin_id_t id) {
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_vcpu_syscall_cb(id, begin_system_call);
    qemu_plugin_register_vcpu_exit_cb(id, end_thread);
}

PUBLIC int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv) {
    const char *architecture = info->target_name;
    int is_x86 = strcmp(architecture, "x86_64") == 0;
    is_branch = is_x86                                     ? is_branch_x86_64
                : strcmp(architecture, "aarch64") == 0 ? is_branch_aarch64
                                                           : is_branch_riscv64;
    /* arch/x86/entry/syscalls/syscall_64.tbl; include/uapi/asm-generic/unistd.h */
    madvise_number = is_x86 ? 28 : 233;
    for (int i = 0; i < argc; i++) {
        /* A trial by `perfmark run`. */
        if (strncmp(argv[i], "trial=", 6) == 0)
            _Exit(TRIAL_STATUS);
        if (strncmp(argv[i], "emulator=", 9) == 0)
            strncpy(emulator, argv[i] + 9, sizeof emulator - 1);
    }
    /* The child of a fork must not count in its parent's page. It asks for a page of its own when it calls a mark. */
    if (pthread_atfork(NULL, NULL, stop_counting) != 0)
        return 1;
    register_callbacks(id);
    return 0;
}
