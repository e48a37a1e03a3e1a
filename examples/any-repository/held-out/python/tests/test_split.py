import unittest

from ledger import split


class Split(unittest.TestCase):
    def test_even(self):
        self.assertEqual(split(300, 3), [100, 100, 100])

    def test_no_cent_is_lost(self):
        for total in range(200):
            self.assertEqual(sum(split(total, 7)), total)

    def test_nobody_gets_more_than_a_cent_more(self):
        for total in range(200):
            shares = split(total, 7)
            self.assertLessEqual(max(shares) - min(shares), 1)
