use shapes::overlap;

#[test]
fn every_pair_of_small_ranges() {
    for a in 0..4u32 {
        for b in a..5 {
            for c in 0..4 {
                for d in c..5 {
                    let shared: Vec<u32> = (a..b).filter(|n| (c..d).contains(n)).collect();
                    let expected = shared.first().map(|first| (*first, shared[shared.len() - 1] + 1));
                    assert_eq!(overlap((a, b), (c, d)), expected);
                }
            }
        }
    }
}
