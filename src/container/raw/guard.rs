//! Keeps a file that shrinks under one of our maps from killing the process.
//!
//! Reading a mapped page that its file no longer has raises SIGBUS. The handler here answers only for addresses in maps
//! that [`watch`] was told of: it marks the map, puts zero pages in place of everything from the missing page to the
//! map's end, and returns, so that the read goes on. Every other SIGBUS goes to whatever was installed before.
//!
//! The handler is installed when the first map is made, once in the life of the process, and it stays. It allocates
//! nothing, takes no lock and calls `mmap`, `sigaction` and `raise` only. What it cannot help: a thread that blocks SIGBUS
//! is killed by the kernel at once, handler or not.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};

use parking_lot::Mutex;

/// A range of addresses that the handler answers for, until dropped.
#[derive(Debug)]
pub(crate) struct Watch(&'static Slot);

impl Watch {
    /// Whether a page of the range had to be replaced. Reads made before this call are covered.
    pub(crate) fn is_shrunk(&self) -> bool {
        // The handler marks before it replaces. This fence keeps the reads that may have seen a replaced page, by this
        // thread or another, before the look at the mark.
        fence(Ordering::SeqCst);
        self.0.is_shrunk.load(Ordering::SeqCst)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.set(0, 0);
        FREE.lock().push(self.0);
    }
}

/// Answers from now on for `len` bytes at address `start`, the start of a page: a whole map made by the caller.
///
/// # Errors
/// `InvalidInput` if the range wraps around the address space.
pub(crate) fn watch(start: usize, len: usize) -> io::Result<Watch> {
    let page = page_size()?;
    let end = len.checked_next_multiple_of(page).and_then(|whole_pages| start.checked_add(whole_pages));
    let Some(end) = end else { return Err(io::ErrorKind::InvalidInput.into()) };
    let free = FREE.lock().pop();
    let slot = free.unwrap_or_else(Slot::publish_new);
    slot.is_shrunk.store(false, Ordering::SeqCst);
    slot.set(start, end);
    Ok(Watch(slot))
}

/// Installs the handler if this is the first call. `false` if it is not the process's SIGBUS handler (any more).
///
/// # Errors
/// Whatever the system says.
pub(crate) fn is_ready() -> io::Result<bool> {
    if INSTALLED.load(Ordering::SeqCst) == 0 {
        install()?;
    }
    Ok(current_action()?.sa_sigaction == INSTALLED.load(Ordering::SeqCst))
}

/// Bytes in a page.
///
/// # Errors
/// If the system does not tell.
pub(crate) fn page_size() -> io::Result<usize> {
    let known = PAGE.load(Ordering::SeqCst);
    if known > 0 {
        return Ok(known);
    }
    // SAFETY: `sysconf` takes a number and touches no memory of ours.
    let told = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    match usize::try_from(told) {
        Ok(page) if page.is_power_of_two() => {
            PAGE.store(page, Ordering::SeqCst);
            Ok(page)
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// A place in the list that the handler walks. Slots are never freed, only used again, so that the handler may read any
/// of them at any time; there are as many as there ever were maps at one time.
#[derive(Debug)]
struct Slot {
    /// Odd while `start` and `end` are being changed.
    version: AtomicUsize,
    /// First address, or 0 when nobody uses the slot.
    start: AtomicUsize,
    /// Address after the last, the end of a page.
    end: AtomicUsize,
    is_shrunk: AtomicBool,
    /// The slot published before; set before this one is published, never changed after.
    next: Option<&'static Self>,
}

impl Slot {
    /// Adds an unused slot to the list.
    fn publish_new() -> &'static Self {
        // One writer at a time: the head that is read is still the head when it is replaced.
        let _writer = FREE.lock();
        let slot = Box::leak(Box::new(Self {
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            is_shrunk: AtomicBool::new(false),
            next: Self::first(),
        }));
        SLOTS.store(ptr::from_mut(slot), Ordering::SeqCst);
        slot
    }

    fn first() -> Option<&'static Self> {
        let first = SLOTS.load(Ordering::SeqCst);
        // SAFETY: the pointer is null or came from `Box::leak` in `publish_new`, whose slots are initialised before they
        // are stored (SeqCst), never freed, and changed through atomics only.
        unsafe { first.as_ref() }
    }

    /// Makes the slot stand for another range. Only its one user calls this.
    fn set(&self, start: usize, end: usize) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.start.store(start, Ordering::SeqCst);
        self.end.store(end, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The end of the range if `address` is in it.
    ///
    /// A slot that changes during the look is passed over. The one that an address of ours belongs to does not change:
    /// its map is borrowed by the thread that reads there, and a watch ends before its map does.
    fn end_over(&self, address: usize) -> Option<usize> {
        let before = self.version.load(Ordering::SeqCst);
        let start = self.start.load(Ordering::SeqCst);
        let end = self.end.load(Ordering::SeqCst);
        let after = self.version.load(Ordering::SeqCst);
        let is_stable = before == after && before.is_multiple_of(2);
        (is_stable && start <= address && address < end).then_some(end)
    }
}

/// Head of the list of all slots.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());

/// Slots that nobody uses. Never touched by the handler.
static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

/// Address of the handler once it is installed; 0 before.
static INSTALLED: AtomicUsize = AtomicUsize::new(0);

/// What was installed before, leaked; null stands for the default action.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// The page size once it is known; 0 before.
static PAGE: AtomicUsize = AtomicUsize::new(0);

fn install() -> io::Result<()> {
    let _writer = FREE.lock();
    if INSTALLED.load(Ordering::SeqCst) != 0 {
        return Ok(());
    }
    page_size()?;
    let previous = current_action()?;
    // Known before the handler can run. Leaked: the handler may read it for as long as the process lives.
    PREVIOUS.store(Box::leak(Box::new(previous)), Ordering::SeqCst);

    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_sigbus;
    let mut action = previous;
    action.sa_sigaction = handler as libc::sighandler_t;
    // An earlier handler finds the signal mask that it asked for, since `action` keeps its set. ONSTACK: a thread whose own
    // stack overflowed can still run it.
    let inherited = match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => libc::SA_RESTART,
        _ => previous.sa_flags & (libc::SA_RESTART | libc::SA_NODEFER),
    };
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | inherited;

    // SAFETY: `action` is a copy of a valid action with a handler of the three-argument kind and the flag that says so;
    // `on_sigbus` is async-signal-safe (module doc). No old action is asked for.
    let done = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    INSTALLED.store(action.sa_sigaction, Ordering::SeqCst);
    Ok(())
}

/// The process's action for SIGBUS.
fn current_action() -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action changes nothing; the old one is written to memory of the right size that lives here.
    let done = unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), action.as_mut_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and wrote it; and all zeros were a valid value before (integers and an optional function).
    Ok(unsafe { action.assume_init() })
}

/// The handler. Runs on any thread at any point of it, so it touches atomics and its arguments only.
extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler installed with SA_SIGINFO, for as long as it runs.
    let Some(info) = (unsafe { info.as_mut() }) else { return };
    let is_fault = is_fault(info.si_code);
    if is_fault {
        // SAFETY: for a fault, which this is, the kernel has filled in the address.
        let address = unsafe { info.si_addr() }.addr();
        if replace_pages(address) {
            return;
        }
    }
    call_previous(signal, info, context, is_fault);
}

/// Whether a code of SIGBUS stands for a read that this thread just tried, and not for a signal that was sent: those come
/// with a code of 0 or below, and a memory error that nobody has met yet with `BUS_MCEERR_AO`.
fn is_fault(code: c_int) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        code > 0 && code != libc::BUS_MCEERR_AO
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        code > 0
    }
}

/// Puts zero pages from the one at `address` to the end of its map, if that is one of ours.
fn replace_pages(address: usize) -> bool {
    let mut next = Slot::first();
    while let Some(slot) = next {
        let Some(end) = slot.end_over(address) else {
            next = slot.next;
            continue;
        };
        // A power of two, and not 0: `watch` asked for it before there was any range.
        let page = PAGE.load(Ordering::SeqCst);
        let start = address & !page.wrapping_sub(1);
        let len = end.saturating_sub(start);
        // Before the replacement: whoever reads a zero page also sees the mark.
        slot.is_shrunk.store(true, Ordering::SeqCst);
        // SAFETY: MAP_FIXED replaces whatever is at `start..end`. That range lies inside one map of ours, whole pages, and
        // the map lives on: the reader that faulted borrows it. Its pages are read-only before and after, so no writer is
        // cut off; readers of other pages in the range see zeros instead, which the mark allows for.
        let done = unsafe {
            libc::mmap(
                ptr::without_provenance_mut(start),
                len,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        return done != libc::MAP_FAILED;
    }
    false
}

/// Does what would have happened without us.
fn call_previous(signal: c_int, info: &mut libc::siginfo_t, context: *mut c_void, is_fault: bool) {
    // SAFETY: null or leaked by `install`, never freed, never written again.
    let previous = unsafe { PREVIOUS.load(Ordering::SeqCst).as_ref() };
    let (handler, flags) =
        previous.map_or((libc::SIG_DFL, 0), |action| (action.sa_sigaction, action.sa_flags));
    match handler {
        libc::SIG_DFL => restore_default(is_fault),
        // The kernel does not let a fault be ignored; it would come back forever.
        libc::SIG_IGN if is_fault => restore_default(is_fault),
        libc::SIG_IGN => {}
        _ => {
            if flags & libc::SA_RESETHAND != 0 {
                // It asked to be called once.
                PREVIOUS.store(ptr::null_mut(), Ordering::SeqCst);
            }
            if flags & libc::SA_SIGINFO != 0 {
                // SAFETY: whoever installed the action vouched that it is such a function, by the flag.
                let handler = unsafe {
                    std::mem::transmute::<
                        libc::sighandler_t,
                        extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void),
                    >(handler)
                };
                handler(signal, info, context);
            } else {
                // SAFETY: as above; without the flag it is a function of one argument.
                let handler =
                    unsafe { std::mem::transmute::<libc::sighandler_t, extern "C" fn(c_int)>(handler) };
                handler(signal);
            }
        }
    }
}

/// Lets the default action end the process: a fault by happening again as soon as the handler returns, so that a core dump
/// shows the place; a signal that was sent by being sent again.
fn restore_default(is_fault: bool) {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros are a valid action (integers and an optional function); on every system here it is the default
    // one, and the next line says so.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = libc::SIG_DFL;
    // SAFETY: a valid action of the default kind; no old action is asked for.
    unsafe { libc::sigaction(libc::SIGBUS, ptr::from_ref(action), ptr::null_mut()) };
    if !is_fault {
        // SAFETY: `raise` takes a number; it is async-signal-safe. The signal waits until the handler returns.
        unsafe { libc::raise(libc::SIGBUS) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Output};

    use super::super::map::map_file;
    use super::*;

    const CHAINED: c_int = 42;
    const SURVIVED: c_int = 43;

    /// A page that its file does not have, in a map that is not ours.
    fn foreign_fault() {
        let file = tempfile::tempfile().unwrap();
        let page = page_size().unwrap();
        // SAFETY: a test's own file; the map is leaked on purpose, and reading it is meant to fault.
        let map = unsafe { memmap2::MmapOptions::new().len(page).map(&file) }.unwrap();
        std::hint::black_box(map[0]);
    }

    /// A SIGBUS that nobody's memory caused.
    fn sent_signal() {
        // SAFETY: takes a number.
        unsafe { libc::raise(libc::SIGBUS) };
    }

    fn our_fault() {
        let file = tempfile::tempfile().unwrap();
        let map = map_file(&file, 1).unwrap().unwrap();
        assert_eq!(map.bytes(), [0]);
        assert!(map.is_shrunk());
    }

    extern "C" fn exit_with_info(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
        assert_eq!(signal, libc::SIGBUS);
        // SAFETY: chained with the kernel's own argument, which is what this test is about.
        let info = unsafe { info.as_ref() }.unwrap();
        assert_eq!(info.si_signo, libc::SIGBUS);
        // SAFETY: ends the process at once, which a handler may do.
        unsafe { libc::_exit(CHAINED) };
    }

    extern "C" fn exit_plainly(signal: c_int) {
        assert_eq!(signal, libc::SIGBUS);
        // SAFETY: as above.
        unsafe { libc::_exit(CHAINED) };
    }

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn count_call(_signal: c_int) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }

    fn set_action(handler: libc::sighandler_t, flags: c_int) {
        let mut action = current_action().unwrap();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        // SAFETY: a valid action whose flags tell its handler's kind.
        assert_eq!(unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) }, 0);
    }

    /// What the child process of each case does. It exits with `SURVIVED` if nothing ends it before.
    fn run_case(case: &str) {
        let with_info: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = exit_with_info;
        let plain: extern "C" fn(c_int) = exit_plainly;
        let counting: extern "C" fn(c_int) = count_call;
        let (handler, flags) = match case.split('/').next().unwrap() {
            "runtime" => {
                let found = current_action().unwrap();
                (found.sa_sigaction, found.sa_flags)
            }
            "info" => (with_info as libc::sighandler_t, libc::SA_SIGINFO),
            "plain" => (plain as libc::sighandler_t, 0),
            "once" => (counting as libc::sighandler_t, libc::SA_RESETHAND),
            "counting" => (counting as libc::sighandler_t, 0),
            "default" => (libc::SIG_DFL, 0),
            "ignore" => (libc::SIG_IGN, 0),
            other => panic!("no case {other}"),
        };
        set_action(handler, flags);
        our_fault();
        match case.split('/').nth(1).unwrap() {
            "foreign" => foreign_fault(),
            "sent" => sent_signal(),
            "sent_twice" => {
                sent_signal();
                assert_eq!(CALLS.load(Ordering::SeqCst), 1);
                our_fault();
                sent_signal();
                assert_eq!(CALLS.load(Ordering::SeqCst), 2);
            }
            "replaced" => {
                set_action(counting as libc::sighandler_t, 0);
                assert!(!is_ready().unwrap());
                let file = tempfile::tempfile().unwrap();
                assert!(map_file(&file, 1).unwrap().is_none(), "nobody would guard it");
            }
            other => panic!("no case {other}"),
        }
        our_fault_if_guarded();
        // SAFETY: ends the process at once, before the test harness reports success.
        unsafe { libc::_exit(SURVIVED) };
    }

    fn our_fault_if_guarded() {
        if is_ready().unwrap() {
            our_fault();
        }
    }

    fn output_of(case: &str) -> Output {
        const NAME: &str =
            "container::raw::guard::tests::a_signal_that_is_not_ours_goes_where_it_went_before";
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME])
            .env("SESLOG_TEST_SIGBUS", case)
            .output()
            .unwrap()
    }

    /// The child is this very test in a process of its own.
    #[test]
    fn a_signal_that_is_not_ours_goes_where_it_went_before() {
        if let Ok(case) = std::env::var("SESLOG_TEST_SIGBUS") {
            run_case(&case);
        }
        // Rust's runtime lets the signal kill; a sanitizer has its own handler there, which reports and exits.
        let runtime = output_of("runtime/foreign");
        let is_reported = String::from_utf8_lossy(&runtime.stderr).contains("AddressSanitizer: BUS");
        assert!(runtime.status.signal() == Some(libc::SIGBUS) || is_reported, "{runtime:?}");
        for case in ["default/foreign", "default/sent", "ignore/foreign", "once/sent_twice"] {
            assert_eq!(output_of(case).status.signal(), Some(libc::SIGBUS), "{case}");
        }
        for case in ["info/foreign", "info/sent", "plain/foreign", "plain/sent"] {
            assert_eq!(output_of(case).status.code(), Some(CHAINED), "{case}");
        }
        for case in ["ignore/sent", "counting/sent_twice", "default/replaced"] {
            assert_eq!(output_of(case).status.code(), Some(SURVIVED), "{case}");
        }
    }

    #[test]
    fn slots_are_used_again_and_know_their_range() {
        let page = page_size().unwrap();
        let watch = watch(page * 10, page + 1).unwrap();
        assert_eq!(watch.0.end_over(page * 10), Some(page * 12));
        assert_eq!(watch.0.end_over(page * 12 - 1), Some(page * 12));
        assert_eq!(watch.0.end_over(page * 10 - 1), None);
        assert_eq!(watch.0.end_over(page * 12), None);
        let slot = watch.0;
        drop(watch);
        assert_eq!(slot.end_over(0), None);
    }

    #[test]
    fn a_range_that_wraps_is_refused() {
        let page = page_size().unwrap();
        assert!(watch(page, usize::MAX).is_err());
        assert!(watch(usize::MAX - page + 1, page * 2).is_err());
    }
}
