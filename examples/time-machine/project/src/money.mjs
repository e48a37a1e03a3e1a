export const cents = (text) => Math.round(Number(text) * 100)

export const show = (amount) => (amount / 100).toFixed(2)
