//! Code that is compiled twice: for every processor of its kind, and for those with AVX2 and bit instructions.

/// Work that gains from more instructions to choose from.
///
/// `run` and what it calls must be inlined, with `#[inline(always)]`: only code inside of [`with_avx2`] is compiled for
/// its instructions. Otherwise the work is done all the same, no faster.
pub(crate) trait Work {
    /// What it gives, whatever the processor.
    type Output;

    fn run(self) -> Self::Output;
}

/// Does `work` with as many of the processor's instructions as this build knows.
#[inline]
pub(crate) fn widest<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has the instructions, and `with_avx2` asks for nothing else.
        return unsafe { with_avx2(work) };
    }
    work.run()
}

/// Whether the processor, and the system that saves its registers, have all that [`with_avx2`] is compiled for. The
/// standard library asks once and remembers.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx2() -> bool {
    std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("popcnt")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn with_avx2<W: Work>(work: W) -> W::Output {
    work.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [u64]);

    impl Work for Sum<'_> {
        type Output = u64;

        #[inline(always)]
        fn run(self) -> u64 {
            self.0.iter().map(|bits| u64::from(bits.count_ones() + bits.trailing_zeros())).sum()
        }
    }

    #[test]
    fn the_answer_is_that_of_the_work() {
        let numbers: Vec<u64> = (0..1000).map(|n| n * n).collect();
        assert_eq!(widest(Sum(&numbers)), Sum(&numbers).run());
        assert_eq!(widest(Sum(&[])), 0);
    }
}
